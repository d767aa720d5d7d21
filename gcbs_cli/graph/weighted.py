"""The graph of hard negatives with the similarity of every edge in both directions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows, pair_values
from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.system.arrays import grouped


@dataclass(frozen=True)
class WeightedGraph:
    """A graph and, for each stored entry (i, j), canonical s_ij (`forward`) and s_ji (`backward`), (2E,) float64."""

    graph: Adjacency
    forward: NDArray[np.float64]
    backward: NDArray[np.float64]


def weigh(graph: Adjacency, pair: PairedRows) -> WeightedGraph:
    """The graph with its similarities, each computed once: the other direction is its mirror image."""
    rows = graph.row_of_entry()
    forward = pair_values(pair, rows, graph.indices)
    return WeightedGraph(graph, forward, forward[mirror(graph)])


def mirror(graph: Adjacency) -> NDArray[np.int64]:
    """(2E,) for the entry (i, j) the place of the entry (j, i)."""
    # Entries lie by (row, column); a stable sort by column puts (i, j) where (j, i) lies.
    return grouped(graph.indices, graph.nodes)[0]


def drop_pairs(graph: Adjacency, lower: NDArray[np.int32], higher: NDArray[np.int32]) -> Adjacency:
    """The graph without the edges among the given unordered pairs (lower < higher)."""
    rows, count = graph.row_of_entry().astype(np.int64), graph.nodes
    keys = np.minimum(rows, graph.indices) * count + np.maximum(rows, graph.indices)
    keep = np.isin(keys, lower.astype(np.int64) * count + higher, invert=True)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[keep], minlength=count))]).astype(np.int64)
    return Adjacency(indptr, graph.indices[keep])
