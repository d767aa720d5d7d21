"""What an order makes of a graph: bandwidth, profile and the share of edges inside batches."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.system.arrays import inverse
from gcbs_cli.system.threads import in_parts

ENTRIES_AT_ONCE = 1 << 20
"""So many that the work arrays of a thread stay in its processor's cache, or near it."""


@dataclass(frozen=True)
class OrderMeasures:
    """Bandwidth and profile in rows, and the share of edges whose ends share a batch (None without an edge)."""

    bandwidth: int
    profile: int
    in_batch_edge_share: float | None


def batches_of(perm: NDArray[np.int64], batch_size: int, *, drop_last: bool = False) -> NDArray[np.int64]:
    """(N,) the batch of each row; without the short last batch its rows are alone, with negative numbers."""
    place = inverse(perm)
    batch = place // batch_size
    full = len(perm) - len(perm) % batch_size
    return np.where(place >= full, full - 1 - place, batch) if drop_last else batch


def measure_order(
    graph: Adjacency, perm: NDArray[np.int64], batch_size: int, *, drop_last: bool = False
) -> OrderMeasures:
    """Bandwidth max |pos(i) − pos(j)|, profile Σ (distance to the farthest lower neighbour), in-batch edge share.

    drop_last: rows of the short last batch share no batch with any other.
    George and Liu, Computer Solution of Large Sparse Positive Definite Systems, chapter 4.
    """
    if graph.edges == 0:
        return OrderMeasures(0, 0, None)
    place = inverse(perm).astype(np.int32)
    batch = batches_of(perm, batch_size, drop_last=drop_last).astype(np.int32)
    degrees = graph.degrees
    farthest = np.zeros(graph.nodes, np.int32)  # how far the farthest neighbour that comes before a row
    together = np.zeros(graph.nodes, np.int32)  # neighbours in its batch

    def measure(start: int, stop: int) -> None:
        occupied = start + np.flatnonzero(degrees[start:stop])
        if len(occupied) == 0:
            return
        some, counts = slice(graph.indptr[start], graph.indptr[stop]), degrees[start:stop]
        neighbours, starts = graph.indices[some], graph.indptr[occupied] - some.start
        farthest[occupied] = place[occupied] - np.minimum.reduceat(place[neighbours], starts)
        same = batch[neighbours] == np.repeat(batch[start:stop], counts)
        together[occupied] = np.add.reduceat(same, starts, dtype=np.int32)

    rows_at_once = max(1, ENTRIES_AT_ONCE * graph.nodes // len(graph.indices))
    in_parts(graph.nodes, rows_at_once, measure)
    share = int(together.sum(dtype=np.int64)) / len(graph.indices)
    return OrderMeasures(int(farthest.max()), int(np.maximum(farthest, 0).sum(dtype=np.int64)), share)
