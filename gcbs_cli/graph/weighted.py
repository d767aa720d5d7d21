"""The graph of hard negatives with the similarity of every edge in both directions, and what keeps its ends apart."""

from dataclasses import dataclass

import numpy as np

from gcbs_cli.data.pairs import PairedRows, pair_values
from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.settings.plan import FalseNegativeSettings
from gcbs_cli.system.arrays import Bools, Float32s, Floats, Ints, grouped

DUPLICATE_COST = 100.0
"""Nats that near duplicates cost inside a batch: more than any row gains there."""


@dataclass(frozen=True)
class WeightedGraph:
    """A graph and, for each stored entry (i, j), canonical s_ij (`forward`) and s_ji (`backward`), (2E,) float64.

    `apart`: (2E,) whether the two are better kept apart, the same both ways; `costs`: (2E,) float32, nats that they
    cost inside a batch.
    """

    graph: Adjacency
    forward: Floats
    backward: Floats
    apart: Bools
    costs: Float32s

    def too_hard_inside(self, batch_of_row: Ints) -> int:
        """How many pairs that are better kept apart share a batch."""
        rows, cols = self.graph.row_of_entry()[self.apart], self.graph.indices[self.apart]
        return int(np.count_nonzero(batch_of_row[rows] == batch_of_row[cols])) // 2


def weigh(graph: Adjacency, pair: PairedRows, avoid: FalseNegativeSettings | None = None) -> WeightedGraph:
    """The graph with its similarities, each computed once: the other direction is its mirror image.

    avoid: which edges are too hard, or join near duplicates, and what they cost.
    """
    rows, back, avoid = graph.row_of_entry(), mirror(graph), avoid or FalseNegativeSettings()
    forward = pair_values(pair, rows, graph.indices)
    backward = forward[back]
    too_hard, alike = np.zeros((2, len(rows)), np.bool_)
    if avoid.fn_margin is not None:
        positive = avoid.fn_margin * pair.diagonal()
        too_hard = np.maximum(forward, backward) >= np.minimum(positive[rows], positive[graph.indices])
    if avoid.apart_from is not None:
        once = np.flatnonzero(rows < graph.indices)
        for side in (pair.x, pair.y):
            alike[once] |= pair_values(PairedRows(side, side), rows[once], graph.indices[once]) >= avoid.apart_from
        alike |= alike[back]
    costs = np.zeros(len(rows), np.float32)
    costs[too_hard] = avoid.fn_weight
    costs[alike] = DUPLICATE_COST
    return WeightedGraph(graph, forward, backward, too_hard | alike, costs)


def mirror(graph: Adjacency) -> Ints:
    """(2E,) for the entry (i, j) the place of the entry (j, i)."""
    # Entries lie by (row, column); a stable sort by column puts (i, j) where (j, i) lies.
    return grouped(graph.indices, graph.nodes)[0]
