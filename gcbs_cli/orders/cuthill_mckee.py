"""Cuthill–McKee and its reverse over the canonical CSR.

Cuthill and McKee, Reducing the bandwidth of sparse symmetric matrices (1969); reversed: George (1971). Each component
starts at its node of least (degree, index), and the components follow in the order of these nodes. Within a component
the search is breadth first and takes the neighbours of a node by (degree, index).

A breadth-first search that meets each row's neighbours already sorted by (degree, index) visits nodes in exactly that
order. Sorting all rows is one transposition of the matrix with its rows taken in (degree, index) order, a counting
sort, so a hub of any degree costs its degree and no more.
"""

import numpy as np

from gcbs_cli.graph.adjacency import Adjacency, entries_of, sort_neighbours
from gcbs_cli.system.arrays import Int32s, Ints
from gcbs_cli.system.compiled import compiled


def plan_cm(graph: Adjacency) -> Ints:
    """(N,) Cuthill–McKee order."""
    by_degree = np.argsort(graph.degrees, kind="stable")
    neighbours = sort_neighbours(graph.indptr, graph.indices, by_degree)
    return breadth_first(graph.indptr, neighbours, by_degree)


@compiled
def breadth_first(indptr: Ints, neighbours: Int32s, start_order: Ints) -> Ints:
    """(N,) all nodes, breadth first from each start whose component is not in the queue yet."""
    queue = np.empty(len(start_order), np.int64)
    queued = np.zeros(len(start_order), np.bool_)
    visited = 0
    end = 0
    for start in start_order:
        if not queued[start]:
            queued[start] = True
            queue[end] = start
            end += 1
        while visited < end:
            node = queue[visited]
            visited += 1
            for e in entries_of(node, indptr):
                neighbour = neighbours[e]
                if not queued[neighbour]:
                    queued[neighbour] = True
                    queue[end] = neighbour
                    end += 1
    return queue
