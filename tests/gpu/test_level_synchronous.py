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

RNG = np.random.default_rng(1)
PATH = RNG.permutation(300)
STAR = [np.full(2999, 7), np.arange(1, 3000)]
GRAPHS = {
    "no-edge": (30, [[], []]),
    "one-edge": (2, [[1], [0]]),
    "star": (3000, STAR),
    "path": (300, [PATH[:-1], PATH[1:]]),
    "many-components": (2000, RNG.integers(2000, size=(2, 900))),
    "dense": (80, RNG.integers(80, size=(2, 2500))),
    "hubs": (3000, np.hstack([RNG.integers(3000, size=(2, 3000)), STAR])),
}


def both(nodes, ends):
    graph = adjacency_from_pairs(nodes, *np.array(ends, np.int32))
    return graph, DeviceGraph(*(torch.from_numpy(part).to(DEVICE) for part in (graph.indptr, graph.indices)))


@pytest.fixture(params=GRAPHS)
def graphs(request):
    """One graph on the host and on a device."""
    return both(*GRAPHS[request.param])


@pytest.mark.parametrize("entries_at_once", [1, 50, ENTRIES_AT_ONCE])
def test_the_order_is_that_of_the_sequential_search(graphs, entries_at_once):
    graph, on_device = graphs
    assert np.array_equal(plan_cm_on_device(on_device, entries_at_once), plan_cm(graph))


@given(nodes=st.integers(2, 40), data=st.data())
@settings(deadline=None, max_examples=80)
def test_the_order_of_generated_graphs(nodes, data):
    ends = st.integers(0, nodes - 1)
    pairs = data.draw(st.lists(st.tuples(ends, ends), max_size=3 * nodes))
    graph, on_device = both(nodes, np.array(pairs).reshape(-1, 2).T)
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
