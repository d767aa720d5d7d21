"""The order that sorts give is the order of the sequential search, on every graph."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from on_device import DEVICE

from gcbs_cli.graph.adjacency import adjacency_from_pairs, measure_order
from gcbs_cli.graph.device_graph import ENTRIES_AT_ONCE, DeviceGraph, rows_of_pairs
from gcbs_cli.orders.cuthill_mckee import plan_cm
from gcbs_cli.orders.level_synchronous import plan_cm_on_device


def star(nodes):
    return np.zeros(nodes - 1, np.int32), np.arange(1, nodes, dtype=np.int32)


def path(nodes):
    order = np.random.default_rng(1).permutation(nodes).astype(np.int32)
    return order[:-1], order[1:]


def random_edges(nodes, edges, seed=0):
    return tuple(np.random.default_rng(seed).integers(nodes, size=(2, edges), dtype=np.int32))


def hubs(nodes):
    rows, cols = random_edges(nodes, nodes)
    return np.concatenate([rows, star(nodes)[0] + 7]), np.concatenate([cols, star(nodes)[1]])


GRAPHS = {
    "no-edge": (30, (np.empty(0, np.int32), np.empty(0, np.int32))),
    "one-edge": (2, (np.array([1], np.int32), np.array([0], np.int32))),
    "star": (500, star(500)),
    "path": (300, path(300)),
    "many-components": (2000, random_edges(2000, 900)),
    "dense": (80, random_edges(80, 2500)),
    "hubs": (3000, hubs(3000)),
}


def both(nodes, rows, cols):
    graph = adjacency_from_pairs(nodes, rows, cols)
    return graph, DeviceGraph(*(torch.from_numpy(part).to(DEVICE) for part in (graph.indptr, graph.indices)))


@pytest.fixture(params=GRAPHS)
def graphs(request):
    """One graph on the host and on a device."""
    nodes, (rows, cols) = GRAPHS[request.param]
    return both(nodes, rows, cols)


@pytest.mark.parametrize("entries_at_once", [1, 50, ENTRIES_AT_ONCE])
def test_the_order_is_that_of_the_sequential_search(graphs, entries_at_once):
    graph, on_device = graphs
    assert np.array_equal(plan_cm_on_device(on_device, entries_at_once), plan_cm(graph))


@given(nodes=st.integers(2, 40), data=st.data())
@settings(deadline=None, max_examples=80)
def test_the_order_of_generated_graphs(nodes, data):
    ends = st.integers(0, nodes - 1)
    pairs = data.draw(st.lists(st.tuples(ends, ends), max_size=3 * nodes))
    graph, on_device = both(nodes, *np.array(pairs, np.int32).reshape(-1, 2).T)
    assert np.array_equal(plan_cm_on_device(on_device, data.draw(st.integers(1, 30))), plan_cm(graph))


@pytest.mark.parametrize("entries_at_once", [333, ENTRIES_AT_ONCE])
def test_the_graph_from_pairs_and_its_measures_are_those_of_the_host(graphs, entries_at_once):
    graph, on_device = graphs
    lower, higher = (torch.from_numpy(ends) for ends in graph.pairs())
    shuffled = torch.randperm(len(lower), generator=torch.Generator().manual_seed(0))
    ends = torch.stack([lower[shuffled], higher[shuffled]]).to(DEVICE)
    indptr, indices = rows_of_pairs(graph.nodes, ends, entries_at_once=entries_at_once)
    assert np.array_equal(indptr.cpu(), graph.indptr)
    assert np.array_equal(indices.cpu(), graph.indices)
    assert (indptr.dtype, indices.dtype) == (torch.int64, torch.int32)
    orders = np.arange(graph.nodes), np.random.default_rng(2).permutation(graph.nodes)
    found = on_device.measure(orders, 7, entries_at_once=entries_at_once)
    assert found == [measure_order(graph, order, 7) for order in orders]
