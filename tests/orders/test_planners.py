"""What every planning method promises, the graphs it is given, what follows it, and Cuthill-McKee."""

import time
from itertools import pairwise, permutations

import numpy as np
import pytest
import reference
from hypothesis import example, given, settings
from hypothesis import settings as examples
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee
from unit_data import find_hard_pairs, grid_matrix, make_pair, product_matrix

from gcbs_cli.graph.adjacency import adjacency_from_pairs, sort_neighbours
from gcbs_cli.graph.hard_pairs import HardPairs, weigh, weigh_every_row
from gcbs_cli.orders import METHODS, MethodInput
from gcbs_cli.orders.cuthill_mckee import breadth_first, plan_cm
from gcbs_cli.orders.finish import shuffle_groups
from gcbs_cli.orders.metis import fit_parts, plan_metis
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.settings.plan import GraphSettings, PlanSettings

ROWS = 203


def check(perm, rows):
    assert perm.dtype == np.int64
    assert perm.flags.c_contiguous
    assert sorted(perm.tolist()) == list(range(rows))


@pytest.mark.parametrize("name", METHODS)
@given(rows=st.integers(2, 80), density=st.floats(0, 5), share=st.floats(0, 1), seed=st.integers(0, 2**40))
@example(rows=2, density=0.0, share=0.0, seed=3)
@example(rows=64, density=5.0, share=1.0, seed=3)
@example(rows=1000, density=0.0, share=0.06, seed=3)
@example(rows=1000, density=20.0, share=0.005, seed=3)
@examples(max_examples=25)
def test_every_method_orders_any_graph(name, rows, density, share, seed):
    generator, pair = np.random.default_rng([seed, rows]), make_pair("related", rows)
    graph = adjacency_from_pairs(rows, *generator.integers(rows, size=(2, int(density * rows))).astype(np.int32))
    texts = [" ".join(generator.choice(["sort", "merge", "the", "hash", "queue"], size=3)) for _ in range(rows)]
    batch_size = 2 + round(share * (rows - 2))
    asked = PlanSettings(batch_size=batch_size, seed=seed)
    given_input = MethodInput(pair, asked, CpuBackend(), graph, weigh(graph, pair), texts=texts)
    first, second = (METHODS[name].order(given_input) for _ in range(2))
    check(first, rows)
    assert first.tobytes() == second.tobytes()


FEW, TOP = 80, 3


def ranked(values, own):
    """Other indices by falling value, equal ones by rising index."""
    return [j for j in sorted(range(len(values)), key=lambda j: (-values[j], j)) if j != own]


def pairs_in(graph):
    return {(i, j) for i, j in zip(graph.row_of_entry().tolist(), graph.indices.tolist(), strict=True) if i < j}


def hard_pairs_of(kind, backend, threshold=None, **graph):
    pair = make_pair(kind, FEW)
    found = find_threshold(pair.grid, GraphSettings(threshold=threshold), 0, backend)
    return find_hard_pairs(pair, PlanSettings(**graph), found, backend)


@pytest.mark.parametrize("kind", ["related", "at-threshold"])
def test_top_m_graph_is_the_union_of_both_directions(kind, backend):
    exact = product_matrix(kind, FEW)
    lists = [[ranked(side[i], i)[:TOP] for i in range(FEW)] for side in (exact, exact.T)]
    wanted = {tuple(sorted((i, j))) for each in lists for i in range(FEW) for j in each[i]}
    assert pairs_in(hard_pairs_of(kind, backend, graph="top-m", top=TOP).graph) == wanted
    for each in lists:  # rows with like lists follow each other
        wanted |= {tuple(sorted(ends)) for ends in pairwise(sorted(range(FEW), key=lambda i, near=each: near[i]))}
    assert pairs_in(hard_pairs_of(kind, backend, graph="top-m", top=TOP, apart_from=0.9).weighted.graph) == wanted


def test_rank_window_keeps_mutual_ranks_only(backend):
    skipped, width = 2, 9
    exact = product_matrix("related", FEW)
    window = [set(ranked(exact[i], i)[skipped : skipped + width]) for i in range(FEW)]
    wanted = {(i, j) for i in range(FEW) for j in window[i] if i < j and i in window[j]}
    assert wanted
    assert pairs_in(hard_pairs_of("related", backend, rank_window=(skipped, width)).graph) == wanted


@pytest.mark.parametrize("graph", [{"graph": "top-m", "top": 6}, {"threshold": 0.34}], ids=["top-m", "quantile"])
def test_edges_that_reach_the_margin_of_either_positive_are_dropped_whatever_t(backend, graph):
    margin, pair = 0.7, make_pair("related", FEW)
    exact = pair.x.astype(np.float64) @ pair.y.astype(np.float64).T
    weaker = np.minimum.outer(np.diag(exact), np.diag(exact))
    every = pairs_in(hard_pairs_of("related", backend, **graph).graph)
    wanted = {(i, j) for i, j in every if max(exact[i, j], exact[j, i]) < margin * weaker[i, j]}
    hard = hard_pairs_of("related", backend, **graph, fn_margin=margin)
    assert pairs_in(hard.graph) == wanted
    assert 20 < len(wanted) < len(every) - 20
    assert hard.weighted is not None
    assert pairs_in(hard.weighted.graph) == every


def test_rows_without_an_edge_get_their_hardest(backend):
    exact = product_matrix("related", FEW)
    path = adjacency_from_pairs(FEW, np.arange(FEW - 2, dtype=np.int32), np.arange(1, FEW - 1, dtype=np.int32))
    for graph, some in ((hard_pairs_of("related", backend, threshold=0.8).graph, range(2, FEW)), (path, [1])):
        alone = np.flatnonzero(graph.degrees == 0).tolist()
        assert len(alone) in some
        wanted = {(i, j) for i in alone for j in ranked(exact[i], i)[:TOP] + ranked(exact.T[i], i)[:TOP]}
        joined = weigh_every_row(HardPairs(graph, None, None), make_pair("related", FEW), PlanSettings(top=TOP))
        assert pairs_in(joined.graph) == pairs_in(graph) | {tuple(sorted(pair)) for pair in wanted}


GRAPH = {"quantile": 0.996}


@pytest.mark.parametrize("method", ["rcm", "cm"])
def test_they_are_dealt_by_the_seed_and_all_others_stay(method):
    exact = grid_matrix("related", ROWS)
    threshold = reference.quantile_of(reference.off_diagonal(exact), GRAPH["quantile"])
    near = reference.neighbours_of(ROWS, reference.edges_above(exact, threshold))
    order = np.array(reference.cuthill_mckee(near))[:: -1 if method == "rcm" else 1]
    alone = np.array([not near[row] for row in order])
    assert 20 < alone.sum() < ROWS - 20
    plans = [
        make_plan(make_pair("related", ROWS), PlanSettings(batch_size=16, **GRAPH, method=method, seed=s)).perm
        for s in (0, 0, 1)
    ]
    for perm in plans:
        assert np.array_equal(perm[~alone], order[~alone])
        assert np.array_equal(np.sort(perm[alone]), np.sort(order[alone]))
        assert not np.array_equal(np.sort(perm[alone])[::-1], perm[alone])
    assert np.array_equal(plans[0], plans[1])
    assert not np.array_equal(plans[0], plans[2])


@pytest.mark.parametrize("size", [4, 8])
def test_shuffled_groups_are_the_same_groups_the_short_one_last(size):
    perm = np.random.default_rng(0).permutation(43)
    mixed = shuffle_groups(perm, size, seed=1)
    assert sorted(map(tuple, mixed[:40].reshape(-1, size))) == sorted(map(tuple, perm[:40].reshape(-1, size)))
    assert mixed[40:].tolist() == perm[40:].tolist()
    assert not np.array_equal(mixed, perm)


def test_parts_are_made_to_fit_by_moving_the_rows_that_lose_least():
    # Three parts, of six rows, of three and of three; rows 4 and 5 hang on 3 by little, and 5 on row 9 by more.
    edges = {(0, 1): 3.0, (0, 2): 3.0, (1, 2): 3.0, (2, 3): 2.0, (3, 4): 0.5, (3, 5): 0.5, (5, 9): 1.0}
    edges |= dict.fromkeys([(6, 7), (7, 8), (9, 10), (10, 11)], 2.0)
    ends = np.array(list(edges), np.int32)
    graph = adjacency_from_pairs(12, ends[:, 0], ends[:, 1])
    rows = graph.row_of_entry()
    worth = np.array([edges[min(i, j), max(i, j)] for i, j in zip(rows, graph.indices, strict=True)], np.float32)
    for names in map(np.array, permutations(range(3))):  # what the parts are called changes nothing
        fitted = fit_parts(names[[0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2]], np.array([4, 4, 4]), graph, worth)
        assert fitted.tolist() == names[[0, 0, 0, 0, 1, 2, 1, 1, 1, 2, 2, 2]].tolist()


def graph_of(nodes, edges):
    rows, cols = np.array(list(edges), np.int32).reshape(-1, 2).T
    return adjacency_from_pairs(nodes, rows, cols)


def random_edges(generator, nodes, edges, *, clusters=1):
    """Random pairs, no edge between clusters; a few nodes have many."""
    first = generator.integers(nodes, size=edges)
    second = (first + clusters * (generator.integers(max(1, nodes // clusters), size=edges))) % nodes
    hub = generator.random(edges) < 0.1
    first[hub] = first[hub] % max(1, min(nodes, 3))
    return [(int(i), int(j)) for i, j in zip(first, second, strict=True) if i != j]


@given(nodes=st.integers(2, 60), density=st.floats(0, 4), clusters=st.integers(1, 4), seed=st.integers(0, 2**32))
@settings(max_examples=150)
def test_order_is_that_of_the_sequential_algorithm(nodes, density, clusters, seed):
    edges = random_edges(np.random.default_rng(seed), nodes, int(density * nodes), clusters=clusters)
    graph = graph_of(nodes, edges)
    expected = reference.cuthill_mckee(reference.neighbours_of(nodes, edges))
    assert np.array_equal(plan_cm(graph), expected)


@pytest.mark.parametrize("edges", [2_000, 8_000, 60_000], ids=["sparse", "many-components", "connected"])
def test_order_of_a_large_graph_is_the_sequential_one_and_scipys(edges):
    generator = np.random.default_rng(edges)
    pairs = random_edges(generator, 5000, edges, clusters=3)
    graph = graph_of(5000, pairs)
    matrix = csr_array((np.ones(len(graph.indices)), graph.indices, graph.indptr.astype(np.int32)), shape=(5000, 5000))
    scipys_starts = np.argsort(graph.degrees.astype(np.int32))  # numpy's unstable sort
    neighbours = sort_neighbours(graph.indptr, graph.indices, np.argsort(graph.degrees, kind="stable"))
    order = breadth_first(graph.indptr, neighbours, scipys_starts)
    assert np.array_equal(order[::-1], reverse_cuthill_mckee(matrix, symmetric_mode=True))
    assert np.array_equal(plan_cm(graph), reference.cuthill_mckee(reference.neighbours_of(5000, pairs)))


def plan_in_seconds(graph):
    """Seconds of this process: those of a clock depend on what else a machine does."""
    plan_cm(graph_of(2, [(0, 1)]))  # compiles
    began = time.process_time()
    order = plan_cm(graph)
    assert time.process_time() - began < 5.0
    return order


def test_a_hub_of_degree_100_000_costs_no_more_than_its_edges():
    hub, leaves = 41, 100_000
    graph = graph_of(leaves + 1, ((hub, leaf) for leaf in range(leaves + 1) if leaf != hub))
    order = plan_in_seconds(graph)
    others = [leaf for leaf in range(leaves + 1) if leaf not in (0, hub)]
    assert order.tolist() == [0, hub, *others]


def test_a_long_path_is_laid_out_straight():
    """A level for each node: what costs time by level would show."""
    generator = np.random.default_rng(5)
    labels = generator.permutation(20_000)
    graph = graph_of(20_000, zip(labels[:-1].tolist(), labels[1:].tolist(), strict=True))
    order = plan_in_seconds(graph)
    assert graph.measure(order, 64).bandwidth == 1
    end = min(labels[0], labels[-1])
    assert order[0] == end


def test_cliques_become_batches():
    pytest.importorskip("pymetis")
    groups = np.random.default_rng(0).permutation(96).reshape(12, 8).tolist()
    pairs = np.array([(i, j) for group in groups for i in group for j in group if i < j], np.int32)
    graph = adjacency_from_pairs(96, pairs[:, 0], pairs[:, 1])
    perm = plan_metis(graph, np.ones(len(graph.indices), np.float32), 8, 0)
    batches = {frozenset(batch) for batch in perm.reshape(-1, 8).tolist()}
    assert batches == {frozenset(group) for group in groups}
