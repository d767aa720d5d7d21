import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.graph.measures import OrderMeasures, measure_order


def measures_of(nodes, edges, perm, batch_size):
    rows, cols = np.array(list(edges), np.int32).reshape(-1, 2).T
    return measure_order(adjacency_from_pairs(nodes, rows, cols), np.asarray(perm, np.int64), batch_size)


@given(nodes=st.integers(2, 40), edges=st.integers(0, 120), batch_size=st.integers(2, 45), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=150)
def test_measures_are_those_of_brute_force(nodes, edges, batch_size, seed):
    generator = np.random.default_rng(seed)
    pairs = {(int(min(i, j)), int(max(i, j))) for i, j in generator.integers(nodes, size=(edges, 2)) if i != j}
    perm = generator.permutation(nodes)
    found = measures_of(nodes, pairs, perm, batch_size)
    bandwidth, profile, share = reference.bandwidth_profile_share(pairs, perm, batch_size)
    assert (found.bandwidth, found.profile) == (bandwidth, profile)
    assert found.in_batch_edge_share == (None if share is None else pytest.approx(share, abs=1e-12))


def test_measures_of_a_path():
    """A path in its own order has bandwidth 1 and profile N − 1; batches of 5 cut one edge in five."""
    path = [(i, i + 1) for i in range(99)]
    assert measures_of(100, path, np.arange(100), 5) == OrderMeasures(1, 99, 80 / 99)


def test_measures_are_plain_numbers():
    found = measures_of(6, [(0, 5)], np.arange(6), 2)
    assert (type(found.bandwidth), type(found.profile), type(found.in_batch_edge_share)) == (int, int, float)
