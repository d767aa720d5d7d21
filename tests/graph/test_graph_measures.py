import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.graph.measures import measure_order


@given(nodes=st.integers(2, 40), edges=st.integers(0, 120), batch_size=st.integers(2, 45), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=150)
def test_measures_are_plain_numbers_and_those_of_brute_force(nodes, edges, batch_size, seed):
    generator = np.random.default_rng(seed)
    rows, cols = generator.integers(nodes, size=(2, edges))
    perm = generator.permutation(nodes)
    found = measure_order(adjacency_from_pairs(nodes, np.int32(rows), np.int32(cols)), perm, batch_size)
    pairs = {(min(i, j), max(i, j)) for i, j in zip(rows.tolist(), cols.tolist(), strict=True) if i != j}
    bandwidth, profile, share = reference.bandwidth_profile_share(pairs, perm, batch_size)
    assert (found.bandwidth, found.profile) == (bandwidth, profile)
    assert found.in_batch_edge_share == (None if share is None else pytest.approx(share, abs=1e-12))
    assert (type(found.bandwidth), type(found.profile)) == (int, int)
    assert type(found.in_batch_edge_share) in (float, type(None))
