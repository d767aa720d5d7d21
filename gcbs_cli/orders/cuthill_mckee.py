"""Cuthill–McKee and its reverse over the canonical CSR.

Cuthill and McKee, Reducing the bandwidth of sparse symmetric matrices (1969); reversed: George (1971). The order that
DESIGN fixes: components in order of their start, the node of least (degree, index); in a component breadth first, the
neighbours of a node by (degree, index).

A breadth-first search that meets each row's neighbours already sorted by (degree, index) visits nodes in exactly that
order. Sorting all rows is one transposition of the matrix with its rows taken in (degree, index) order, a counting
sort, so a hub of any degree costs its degree and no more. All components are searched at once from a virtual root
whose neighbours are the starts: the search's queue keeps the order within each component, and a stable sort by
component puts the components one after the other.
"""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.graph.adjacency import Adjacency


def plan_rcm(graph: Adjacency, start_order: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """(N,) reverse Cuthill–McKee order; `start_order` as in `plan_cm`."""
    return np.ascontiguousarray(plan_cm(graph, start_order)[::-1])


def plan_cm(graph: Adjacency, start_order: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """(N,) Cuthill–McKee order.

    `start_order`: (N,) the order in which nodes are tried as starts of components; by (degree, index) unless given.
    """
    by_degree = np.argsort(graph.degrees, kind="stable")
    component_rank, starts = _components(graph, by_degree if start_order is None else start_order)
    visited = _search(graph, by_degree, starts)
    return visited[np.argsort(component_rank[visited], kind="stable")].astype(np.int64)


def _components(graph: Adjacency, start_order: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(N,) the rank of each node's component in the order of their starts, and the starts in that order."""
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(_as_scipy(graph.indptr, graph.indices), directed=False)
    labels_in_order = label[start_order]
    _, first = np.unique(labels_in_order, return_index=True)
    order_of_labels = np.argsort(first, kind="stable")
    rank = np.empty(count, np.int64)
    rank[order_of_labels] = np.arange(count)
    return rank[label], start_order[first[order_of_labels]]


def _search(graph: Adjacency, by_degree: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Breadth-first order of all nodes from the starts in turn, neighbours by (degree, index)."""
    from scipy.sparse.csgraph import breadth_first_order

    sorted_rows = _neighbours_by_degree(graph, by_degree)
    root = graph.nodes
    indptr = np.append(graph.indptr, graph.indptr[-1] + len(starts))
    indices = np.concatenate([sorted_rows, starts.astype(np.int32)])
    order = breadth_first_order(_as_scipy(indptr, indices), root, directed=True, return_predecessors=False)
    return order[1:]


def _neighbours_by_degree(graph: Adjacency, by_degree: NDArray[np.int64]) -> NDArray[np.int32]:
    """(2E,) the CSR's column indices with each row sorted by (degree, index) of the neighbour."""
    by_rank = _as_scipy(graph.indptr, graph.indices)[by_degree]
    return by_degree.astype(np.int32)[by_rank.tocsc().indices]


def _as_scipy(indptr: NDArray[np.int64], indices: NDArray[np.int32]):  # type: ignore[no-untyped-def]
    from scipy.sparse import csr_array

    nodes = len(indptr) - 1
    # Built by parts: the constructor would check and might sort the columns, whose order is the point.
    matrix = csr_array((nodes, nodes), dtype=np.float64)
    matrix.indptr = indptr.astype(np.int32) if indptr[-1] < np.iinfo(np.int32).max else indptr
    matrix.indices = indices
    matrix.data = np.ones(len(indices), np.float64)
    return matrix
