"""The graph of hard negatives with the similarity of every edge in both directions, and which edges are too hard."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows, pair_values
from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.system.arrays import grouped


@dataclass(frozen=True)
class WeightedGraph:
    """A graph and, for each stored entry (i, j), canonical s_ij (`forward`) and s_ji (`backward`), (2E,) float64.

    `too_hard`: (2E,) whether s_ij or s_ji reaches the margin's share of s_ii or s_jj, the same both ways.
    """

    graph: Adjacency
    forward: NDArray[np.float64]
    backward: NDArray[np.float64]
    too_hard: NDArray[np.bool_]

    def too_hard_inside(self, batch_of_row: NDArray[np.int64]) -> int:
        """How many pairs that are too hard share a batch."""
        rows, cols = self.graph.row_of_entry()[self.too_hard], self.graph.indices[self.too_hard]
        return int(np.count_nonzero(batch_of_row[rows] == batch_of_row[cols])) // 2


def weigh(graph: Adjacency, pair: PairedRows, margin: float | None = None) -> WeightedGraph:
    """The graph with its similarities, each computed once: the other direction is its mirror image.

    margin: from which share of a positive's similarity on an edge is too hard; None: none is.
    """
    rows = graph.row_of_entry()
    forward = pair_values(pair, rows, graph.indices)
    backward = forward[mirror(graph)]
    too_hard = np.zeros(len(rows), np.bool_)
    if margin is not None:
        positive = margin * pair.diagonal()
        too_hard = np.maximum(forward, backward) >= np.minimum(positive[rows], positive[graph.indices])
    return WeightedGraph(graph, forward, backward, too_hard)


def mirror(graph: Adjacency) -> NDArray[np.int64]:
    """(2E,) for the entry (i, j) the place of the entry (j, i)."""
    # Entries lie by (row, column); a stable sort by column puts (i, j) where (j, i) lies.
    return grouped(graph.indices, graph.nodes)[0]
