import numpy as np
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array

from gcbs_cli.graph.adjacency import adjacency_from_pairs

PAIRS = st.integers(1, 30).flatmap(
    lambda nodes: st.tuples(st.just(nodes), st.lists(st.tuples(*[st.integers(0, nodes - 1)] * 2), max_size=4 * nodes))
)


def graph_of(nodes, pairs):
    rows, cols = np.array(list(pairs), np.int32).reshape(-1, 2).T
    return adjacency_from_pairs(nodes, rows, cols)


def check_canonical(graph):
    """Symmetric, sorted within rows, each neighbour once, no self loop, and of the types that are promised."""
    assert (graph.indptr.dtype, graph.indices.dtype) == (np.int64, np.int32)
    assert graph.indptr[0] == 0
    assert graph.indptr[-1] == len(graph.indices)
    rows = graph.row_of_entry().astype(np.int64)
    assert not np.any(rows == graph.indices)
    keys = rows * graph.nodes + graph.indices
    assert np.all(np.diff(keys) > 0)
    assert np.array_equal(np.sort(graph.indices.astype(np.int64) * graph.nodes + rows), keys)


@given(PAIRS)
@settings(deadline=None, max_examples=100)
def test_adjacency_of_any_pairs(given_pairs):
    nodes, pairs = given_pairs
    graph = graph_of(nodes, pairs)
    check_canonical(graph)
    expected = reference.neighbours_of(nodes, pairs)
    found = [
        graph.indices[start:stop].tolist() for start, stop in zip(graph.indptr[:-1], graph.indptr[1:], strict=True)
    ]
    assert found == expected
    assert graph.nodes == nodes
    assert graph.edges == sum(map(len, expected)) // 2
    assert graph.degrees.tolist() == [len(near) for near in expected]
    once = set(zip(*(side.tolist() for side in graph.pairs()), strict=True))
    assert once == {(i, j) for i, near in enumerate(expected) for j in near if i < j}


def test_adjacency_is_scipys_symmetrised_matrix():
    generator = np.random.default_rng(0)
    rows, cols = generator.integers(700, size=(2, 9000)).astype(np.int32)
    graph = adjacency_from_pairs(700, rows, cols)
    dense = coo_array((np.ones(9000), (rows, cols)), shape=(700, 700)).toarray() > 0
    dense |= dense.T
    np.fill_diagonal(dense, False)
    assert np.array_equal(np.argwhere(dense), np.stack([graph.row_of_entry(), graph.indices], axis=1))
