"""What every planning method promises: a permutation, full batches but the last, the same bytes for the same seed."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from unit_data import make_pair

from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.graph.weighted import weigh
from gcbs_cli.orders import PLANNERS, PlannerInput, planner_named
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.settings.plan import PlanSettings

METHODS = [name for name in PLANNERS if name != "words"]  # words needs texts, and has tests of its own
ROWS, SIZE = 203, 16


def check(perm: np.ndarray, rows: int) -> None:
    assert perm.dtype == np.int64
    assert perm.flags.c_contiguous
    assert sorted(perm.tolist()) == list(range(rows))


@pytest.mark.parametrize("name", PLANNERS)
@given(rows=st.integers(2, 80), density=st.floats(0, 5), share=st.floats(0, 1), seed=st.integers(0, 2**40))
@example(rows=2, density=0.0, share=0.0, seed=3)
@example(rows=64, density=5.0, share=1.0, seed=3)
@example(rows=1000, density=0.0, share=0.06, seed=3)
@example(rows=1000, density=20.0, share=0.005, seed=3)
@examples(deadline=None, max_examples=25)
def test_every_method_orders_any_graph(name: str, rows: int, density: float, share: float, seed: int) -> None:
    generator, pair = np.random.default_rng([seed, rows]), make_pair("related", rows)
    graph = adjacency_from_pairs(rows, *generator.integers(rows, size=(2, int(density * rows))).astype(np.int32))
    texts = [" ".join(generator.choice(["sort", "merge", "the", "hash", "queue"], size=3)) for _ in range(rows)]
    batch_size = 2 + round(share * (rows - 2))
    asked = PlannerInput(
        pair, PlanSettings(batch_size=batch_size, seed=seed), graph, weigh(graph, pair), inputs={"texts": texts}
    )
    first, second = (planner_named(name).plan(asked) for _ in range(2))
    check(first, rows)
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("name", [name for name, planner in PLANNERS.items() if planner.needs_graph])
def test_methods_with_a_graph_say_when_it_is_missing(name: str) -> None:
    with pytest.raises(ValueError, match="graph"):
        planner_named(name).plan(PlannerInput(make_pair("related", 100), PlanSettings()))


@pytest.mark.parametrize("graph", ["quantile", "top-m"])
@pytest.mark.parametrize("refine", [False, True], ids=["plain", "refined"])
@pytest.mark.parametrize("method", METHODS)
def test_method_gives_a_permutation_and_the_same_bytes_for_the_same_seed(method: str, refine: bool, graph: str) -> None:
    if method == "metis":
        pytest.importorskip("pymetis")
    pair = make_pair("related", ROWS)
    settings = PlanSettings(batch_size=SIZE, method=method, refine=refine, seed=5, graph=graph, top=4, quantile=0.98)
    first, second = (make_plan(pair, settings).perm for _ in range(2))
    check(first, ROWS)
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(
    "settings",
    [
        PlanSettings(batch_size=SIZE, group_size=4, refine=True),
        PlanSettings(batch_size=SIZE, group_size=1, refine=True),
        PlanSettings(batch_size=SIZE, shuffle_batches=True),
        PlanSettings(batch_size=SIZE, fn_margin=0.9, refine=True),
        PlanSettings(batch_size=SIZE, rank_window=(2, 10), no_duplicates=True, refine=True),
        PlanSettings(batch_size=ROWS, refine=True),
        PlanSettings(batch_size=ROWS - 1, refine=True, graph="top-m"),
    ],
    ids=["groups", "groups-of-1", "shuffled", "margin", "window", "k=N", "k=N-1"],
)
def test_every_option_keeps_a_permutation(settings: PlanSettings) -> None:
    check(make_plan(make_pair("related", ROWS), settings).perm, ROWS)


@pytest.mark.parametrize("kind", ["all-equal", "duplicates", "at-threshold", "hubs", "one-dimension"])
def test_ties_and_hubs_do_not_matter(kind: str) -> None:
    settings = PlanSettings(batch_size=8, refine=True, graph="top-m", top=3)
    check(make_plan(make_pair(kind, 61), settings).perm, 61)
