"""What an order makes of a graph: bandwidth, profile and the share of edges inside batches."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.graph.adjacency import Adjacency


@dataclass(frozen=True)
class OrderMeasures:
    """Bandwidth and profile in rows, and the share of edges whose ends share a batch (None without an edge)."""

    bandwidth: int
    profile: int
    in_batch_edge_share: float | None


def positions(perm: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N,) the position of each row: the inverse permutation."""
    inverse = np.empty(len(perm), np.int64)
    inverse[perm] = np.arange(len(perm))
    return inverse


def measure_order(graph: Adjacency, perm: NDArray[np.int64], batch_size: int) -> OrderMeasures:
    """Bandwidth max |pos(i) − pos(j)|, profile Σ (distance to the farthest lower neighbour), in-batch edge share.

    George and Liu, Computer Solution of Large Sparse Positive Definite Systems, chapter 4.
    """
    if graph.edges == 0:
        return OrderMeasures(0, 0, None)
    place = positions(perm)
    rows, neighbours = place[graph.row_of_entry()], place[graph.indices]
    distance = rows - neighbours
    occupied = np.flatnonzero(graph.degrees)
    farthest = np.maximum.reduceat(distance, graph.indptr[occupied])
    together = np.count_nonzero(rows // batch_size == neighbours // batch_size)
    return OrderMeasures(int(distance.max()), int(np.maximum(farthest, 0).sum()), float(together / len(rows)))
