"""Graphs of pairs: their neighbours and measures by brute force, and which edges are too hard to share a batch."""

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from gcbs_cli.graph.adjacency import adjacency_from_pairs, batches_of

PAIRS = st.integers(1, 30).flatmap(
    lambda nodes: st.tuples(st.just(nodes), st.lists(st.tuples(*[st.integers(0, nodes - 1)] * 2), max_size=4 * nodes))
)


@given(PAIRS)
@settings(max_examples=100)
def test_adjacency_holds_each_neighbour_of_any_pairs_once_and_in_order(given_pairs):
    nodes, pairs = given_pairs
    graph = adjacency_from_pairs(nodes, *np.array(pairs, np.int32).reshape(-1, 2).T)
    expected = reference.neighbours_of(nodes, pairs)
    assert (graph.indptr.dtype, graph.indices.dtype) == (np.int64, np.int32)
    assert [near.tolist() for near in np.split(graph.indices, graph.indptr[1:-1])] == expected
    assert (graph.indptr[0], graph.indptr[-1], graph.nodes) == (0, len(graph.indices), nodes)
    assert graph.edges == sum(map(len, expected)) // 2
    assert graph.degrees.tolist() == [len(near) for near in expected]
    assert graph.row_of_entry().tolist() == [row for row, near in enumerate(expected) for _ in near]


@given(nodes=st.integers(2, 40), edges=st.integers(0, 120), batch_size=st.integers(2, 45), seed=st.integers(0, 2**32))
@settings(max_examples=150)
def test_measures_are_plain_numbers_and_those_of_brute_force(nodes, edges, batch_size, seed):
    generator = np.random.default_rng(seed)
    rows, cols = generator.integers(nodes, size=(2, edges))
    perm = generator.permutation(nodes)
    found = adjacency_from_pairs(nodes, np.int32(rows), np.int32(cols)).measure(perm, batch_size)
    pairs = {(min(i, j), max(i, j)) for i, j in zip(rows.tolist(), cols.tolist(), strict=True) if i != j}
    bandwidth, profile, share = reference.bandwidth_profile_share(pairs, perm, batch_size)
    assert (found.bandwidth, found.profile) == (bandwidth, profile)
    assert found.in_batch_edge_share == (None if share is None else pytest.approx(share, abs=1e-12))
    assert (type(found.bandwidth), type(found.profile)) == (int, int)
    assert type(found.in_batch_edge_share) in (float, type(None))


def test_rows_of_the_short_batch_that_is_left_out_are_alone():
    perm = np.random.default_rng(0).permutation(11)
    batch = batches_of(perm, 4, drop_last=True)
    assert batch[perm[:8]].tolist() == [0] * 4 + [1] * 4
    assert batch.min() < 0 <= np.sort(batch)[3]
    assert len({number for number in batch[perm[8:]].tolist() if number < 0}) == 3
