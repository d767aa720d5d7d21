"""The undirected graph of hard negatives as a canonical CSR, and what an order makes of it."""

from dataclasses import dataclass

import numpy as np

from gcbs_cli.system.arrays import Array, Bools, Int32s, Ints, inverse
from gcbs_cli.system.compiled import compiled


@dataclass(frozen=True)
class OrderMeasures:
    """Bandwidth and profile in rows, and the share of edges whose ends share a batch (None without an edge)."""

    bandwidth: int
    profile: int
    in_batch_edge_share: float | None


@dataclass(frozen=True)
class Adjacency:
    """An undirected graph without self loops: both directions of every edge, columns sorted within a row.

    indptr: (N + 1,) int64; indices: (2E,) int32.
    """

    indptr: Ints
    indices: Int32s

    @property
    def nodes(self) -> int:
        """N, the number of rows."""
        return len(self.indptr) - 1

    @property
    def edges(self) -> int:
        """E, the number of undirected edges."""
        return len(self.indices) // 2

    @property
    def degrees(self) -> Ints:
        """(N,) the number of neighbours of each row."""
        return np.diff(self.indptr)

    def row_of_entry(self) -> Int32s:
        """(2E,) the row of each stored entry."""
        return np.repeat(np.arange(self.nodes, dtype=np.int32), self.degrees)

    def subgraph(self, mask: Bools) -> "Adjacency":
        """Only the edges whose entries the mask (2E,) names, both ways alike."""
        entries_before = np.concatenate([[0], np.cumsum(mask)])
        return Adjacency(entries_before[self.indptr], self.indices[mask])

    def measure(self, order: Ints, batch_size: int, *, drop_last: bool = False) -> OrderMeasures:
        """The measures of an order.

        Bandwidth max |pos(i) − pos(j)|, profile Σ (distance to the farthest lower neighbour), in-batch edge share.
        drop_last: rows of the short last batch share no batch with any other.
        George and Liu, Computer Solution of Large Sparse Positive Definite Systems, chapter 4.
        """
        batch = batches_of(order, batch_size, drop_last=drop_last)
        bandwidth, profile, inside = _measure(self.indptr, self.indices, inverse(order), batch)
        share = inside / len(self.indices) if self.edges else None
        return OrderMeasures(bandwidth, profile, share)


@compiled
def entries_of(row: int, indptr: Ints) -> range:
    """Where the entries of a row lie in a CSR."""
    return range(indptr[row], indptr[row + 1])


def adjacency_from_pairs(nodes: int, rows: Array, cols: Array) -> Adjacency:
    """The graph with an edge {i, j} for every directed pair (i, j), i ≠ j, in whichever direction and however often."""
    indptr, unsorted = _both_ways(nodes, np.ascontiguousarray(rows, np.int32), np.ascontiguousarray(cols, np.int32))
    indices = sort_neighbours(indptr, unsorted, np.arange(nodes))
    del unsorted  # as large as the graph
    return Adjacency(indptr, indices[: _drop_repeated(indptr, indices)].copy())


def edges_of_lists(lists: Array) -> tuple[Int32s, Array]:
    """(N · m,) rows and columns of the edges from each row to all on its list; lists: (N, m)."""
    return np.repeat(np.arange(len(lists), dtype=np.int32), lists.shape[1]), lists.reshape(-1)


@compiled
def _both_ways(nodes: int, rows: Int32s, cols: Int32s) -> tuple[Ints, Int32s]:
    """A CSR of each pair in both directions, columns in no particular order."""
    indptr = np.zeros(nodes + 1, np.int64)
    for pair in range(len(rows)):
        if rows[pair] != cols[pair]:
            indptr[rows[pair] + 1] += 1
            indptr[cols[pair] + 1] += 1
    indptr = np.cumsum(indptr)
    filled = indptr.copy()  # where the next neighbour of each node goes
    indices = np.empty(indptr[-1], np.int32)
    for pair in range(len(rows)):
        i, j = rows[pair], cols[pair]
        if i != j:
            indices[filled[i]] = j
            indices[filled[j]] = i
            filled[i] += 1
            filled[j] += 1
    return indptr, indices


@compiled
def sort_neighbours(indptr: Ints, indices: Int32s, order: Ints) -> Int32s:
    """(2E,) the neighbours of each node of a symmetric CSR, in this order of the nodes, by a counting sort."""
    filled = indptr.copy()
    neighbours = np.empty_like(indices)
    for node in order:
        for e in entries_of(node, indptr):
            neighbours[filled[indices[e]]] = node
            filled[indices[e]] += 1
    return neighbours


@compiled
def _drop_repeated(indptr: Ints, indices: Int32s) -> int:
    """Take entries that follow an equal one in their row out of the CSR, in place; how many entries remain."""
    end = 0
    start = 0  # of the row before its entries move; indptr[row] says where they are now
    for row in range(len(indptr) - 1):
        stop = indptr[row + 1]
        for e in range(start, stop):
            if end == indptr[row] or indices[end - 1] != indices[e]:
                indices[end] = indices[e]
                end += 1
        indptr[row + 1] = end
        start = stop
    return end


def batches_of(perm: Ints, batch_size: int, *, drop_last: bool = False) -> Ints:
    """(N,) the batch of each row; without the short last batch its rows are alone, with negative numbers."""
    place = inverse(perm)
    batch = place // batch_size
    if not drop_last:
        return batch
    full = len(perm) - len(perm) % batch_size
    return np.where(place >= full, full - 1 - place, batch)


@compiled
def _measure(indptr: Ints, indices: Int32s, place: Ints, batch: Ints) -> tuple[int, int, int]:
    """Bandwidth, profile, and how many entries join rows of one batch."""
    bandwidth, profile, inside = 0, 0, 0
    for row in range(len(indptr) - 1):
        farthest = 0
        for e in entries_of(row, indptr):
            farthest = max(farthest, place[row] - place[indices[e]])
            inside += batch[row] == batch[indices[e]]
        bandwidth = max(bandwidth, farthest)
        profile += farthest
    return bandwidth, profile, inside
