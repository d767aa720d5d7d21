"""What an order makes of a graph: bandwidth, profile and the share of edges inside batches."""

from dataclasses import dataclass

import numpy as np

from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.system.arrays import Int32s, Ints, inverse
from gcbs_cli.system.compiled import compiled


@dataclass(frozen=True)
class OrderMeasures:
    """Bandwidth and profile in rows, and the share of edges whose ends share a batch (None without an edge)."""

    bandwidth: int
    profile: int
    in_batch_edge_share: float | None


def batches_of(perm: Ints, batch_size: int, *, drop_last: bool = False) -> Ints:
    """(N,) the batch of each row; without the short last batch its rows are alone, with negative numbers."""
    place = inverse(perm)
    batch = place // batch_size
    full = len(perm) - len(perm) % batch_size
    return np.where(place >= full, full - 1 - place, batch) if drop_last else batch


def measure_order(graph: Adjacency, perm: Ints, batch_size: int, *, drop_last: bool = False) -> OrderMeasures:
    """Bandwidth max |pos(i) − pos(j)|, profile Σ (distance to the farthest lower neighbour), in-batch edge share.

    drop_last: rows of the short last batch share no batch with any other.
    George and Liu, Computer Solution of Large Sparse Positive Definite Systems, chapter 4.
    """
    if graph.edges == 0:
        return OrderMeasures(0, 0, None)
    batch = batches_of(perm, batch_size, drop_last=drop_last)
    bandwidth, profile, together = _measure(graph.indptr, graph.indices, inverse(perm), batch)
    return OrderMeasures(bandwidth, profile, together / len(graph.indices))


@compiled
def _measure(indptr: Ints, indices: Int32s, place: Ints, batch: Ints) -> tuple[int, int, int]:
    bandwidth, profile, together = 0, 0, 0
    for row in range(len(indptr) - 1):
        farthest = 0
        for e in range(indptr[row], indptr[row + 1]):
            farthest = max(farthest, place[row] - place[indices[e]])
            together += batch[row] == batch[indices[e]]
        bandwidth = max(bandwidth, farthest)
        profile += farthest
    return bandwidth, profile, together
