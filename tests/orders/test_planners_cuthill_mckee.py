import time

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from gcbs_cli.graph.adjacency import adjacency_from_pairs, measure_order
from gcbs_cli.orders.cuthill_mckee import plan_cm, plan_rcm


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
@settings(deadline=None, max_examples=150)
def test_order_is_that_of_the_sequential_algorithm(nodes, density, clusters, seed):
    edges = random_edges(np.random.default_rng(seed), nodes, int(density * nodes), clusters=clusters)
    graph = graph_of(nodes, edges)
    expected = reference.cuthill_mckee(reference.neighbours_of(nodes, edges))
    assert np.array_equal(plan_cm(graph), expected)
    assert np.array_equal(plan_rcm(graph), expected[::-1])


@pytest.mark.parametrize("edges", [2_000, 8_000, 60_000], ids=["sparse", "many-components", "connected"])
def test_order_of_a_large_graph_is_the_sequential_one_and_scipys(edges):
    generator = np.random.default_rng(edges)
    pairs = random_edges(generator, 5000, edges, clusters=3)
    graph = graph_of(5000, pairs)
    matrix = csr_array((np.ones(len(graph.indices)), graph.indices, graph.indptr.astype(np.int32)), shape=(5000, 5000))
    scipys_starts = np.argsort(graph.degrees.astype(np.int32))  # numpy's unstable sort
    assert np.array_equal(plan_rcm(graph, scipys_starts), reverse_cuthill_mckee(matrix, symmetric_mode=True))
    assert np.array_equal(plan_cm(graph), reference.cuthill_mckee(reference.neighbours_of(5000, pairs)))


def test_a_hub_of_degree_100_000_costs_no_more_than_its_edges():
    hub, leaves = 41, 100_000
    graph = graph_of(leaves + 1, ((hub, leaf) for leaf in range(leaves + 1) if leaf != hub))
    began = time.perf_counter()
    order = plan_cm(graph)
    assert time.perf_counter() - began < 5.0
    others = [leaf for leaf in range(leaves + 1) if leaf not in (0, hub)]
    assert order.tolist() == [0, hub, *others]


def test_a_long_path_is_laid_out_straight():
    """A level for each node: what costs time by level would show."""
    generator = np.random.default_rng(5)
    labels = generator.permutation(20_000)
    graph = graph_of(20_000, zip(labels[:-1].tolist(), labels[1:].tolist(), strict=True))
    began = time.perf_counter()
    order = plan_rcm(graph)
    assert time.perf_counter() - began < 5.0
    assert measure_order(graph, order, 64).bandwidth == 1
    end = min(labels[0], labels[-1])
    assert order[-1] == end
