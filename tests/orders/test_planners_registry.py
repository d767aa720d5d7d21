import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit_data import make_pair

from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.graph.weighted import weigh
from gcbs_cli.orders import PLANNERS, PlannerInput, planner_named
from gcbs_cli.system.errors import BadInput


def check(name: str, given_input: PlannerInput) -> np.ndarray:
    """What every method promises: a permutation in int64, the same bytes for the same input and seed."""
    order = planner_named(name).plan(given_input)
    assert isinstance(order, np.ndarray)
    assert order.dtype == np.int64
    assert order.shape == (given_input.pair.rows,)
    assert order.flags.c_contiguous
    assert np.array_equal(np.sort(order), np.arange(given_input.pair.rows))
    assert planner_named(name).plan(given_input).tobytes() == order.tobytes()
    return order


def build_input(rows, edges, batch_size, seed, graph_seed=0):
    """What every method may be given: embeddings, the graph with similarities, and texts of a few words."""
    ends = np.random.default_rng([graph_seed, rows]).integers(rows, size=(2, edges)).astype(np.int32)
    graph = adjacency_from_pairs(rows, *ends)
    generator = np.random.default_rng([rows, 1])
    texts = [" ".join(generator.choice(["sort", "merge", "the", "hash", "queue"], size=3)) for _ in range(rows)]
    pair = make_pair("related", rows)
    return PlannerInput(pair, batch_size, seed, graph=graph, weighted=weigh(graph, pair), inputs={"texts": texts})


@pytest.mark.parametrize("name", PLANNERS)
@given(rows=st.integers(2, 80), density=st.floats(0, 5), share=st.floats(0, 1), seed=st.integers(0, 2**40))
@settings(deadline=None, max_examples=25)
def test_every_method_gives_a_permutation(name, rows, density, share, seed):
    batch_size = 2 + round(share * (rows - 2))
    check(name, build_input(rows, int(density * rows), batch_size, seed, graph_seed=seed))


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize(
    ("rows", "edges", "batch_size"),
    [(2, 0, 2), (2, 1, 2), (64, 300, 64), (65, 300, 64), (1000, 0, 64), (1000, 20_000, 7)],
    ids=["two-rows", "one-edge", "one-batch", "a-batch-of-one-left", "no-edges", "dense"],
)
def test_every_method_on_the_corners(name, rows, edges, batch_size):
    check(name, build_input(rows, edges, batch_size, seed=3))


@pytest.mark.parametrize("name", [name for name, planner in PLANNERS.items() if planner.needs_graph])
def test_methods_with_a_graph_say_when_it_is_missing(name):
    with pytest.raises(ValueError, match="graph"):
        planner_named(name).plan(PlannerInput(make_pair("related", 100), 10))


def test_an_unknown_method_is_refused_with_the_names_there_are():
    with pytest.raises(BadInput, match=r"--method fast.*rcm.*random"):
        planner_named("fast")
