import numpy as np
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from gcbs_cli.graph.adjacency import adjacency_from_pairs

PAIRS = st.integers(1, 30).flatmap(
    lambda nodes: st.tuples(st.just(nodes), st.lists(st.tuples(*[st.integers(0, nodes - 1)] * 2), max_size=4 * nodes))
)


@given(PAIRS)
@settings(deadline=None, max_examples=100)
def test_adjacency_holds_each_neighbour_of_any_pairs_once_and_in_order(given_pairs):
    nodes, pairs = given_pairs
    graph = adjacency_from_pairs(nodes, *np.array(pairs, np.int32).reshape(-1, 2).T)
    expected = reference.neighbours_of(nodes, pairs)
    assert (graph.indptr.dtype, graph.indices.dtype) == (np.int64, np.int32)
    assert [near.tolist() for near in np.split(graph.indices, graph.indptr[1:-1])] == expected
    assert (graph.indptr[0], graph.indptr[-1], graph.nodes) == (0, len(graph.indices), nodes)
    assert graph.edges == sum(map(len, expected)) // 2
    assert graph.degrees.tolist() == [len(near) for near in expected]
    once = set(zip(*(side.tolist() for side in graph.pairs()), strict=True))
    assert once == {(i, j) for i, near in enumerate(expected) for j in near if i < j}
