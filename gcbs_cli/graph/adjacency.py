"""The undirected graph of hard negatives as a canonical CSR."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Adjacency:
    """An undirected graph without self loops: both directions of every edge, columns sorted within a row.

    indptr: (N + 1,) int64; indices: (2E,) int32.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]

    @property
    def nodes(self) -> int:
        """N, the number of rows."""
        return len(self.indptr) - 1

    @property
    def edges(self) -> int:
        """E, the number of undirected edges."""
        return len(self.indices) // 2

    @property
    def degrees(self) -> NDArray[np.int64]:
        """(N,) the number of neighbours of each row."""
        return np.diff(self.indptr)

    def row_of_entry(self) -> NDArray[np.int32]:
        """(2E,) the row of each stored entry."""
        return np.repeat(np.arange(self.nodes, dtype=np.int32), self.degrees)

    def pairs(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Each edge once, as (E,) lower and (E,) higher index, sorted."""
        rows = self.row_of_entry()
        once = rows < self.indices
        return rows[once], self.indices[once]


def adjacency_from_pairs(nodes: int, rows: NDArray[np.int32], cols: NDArray[np.int32]) -> Adjacency:
    """The graph with an edge {i, j} for every directed pair (i, j), i ≠ j, in whichever direction and however often."""
    from scipy.sparse import coo_array

    apart = rows != cols
    directed = coo_array((np.ones(int(apart.sum()), np.int8), (rows[apart], cols[apart])), shape=(nodes, nodes)).tocsr()
    directed.sum_duplicates()
    directed.data[:] = 1
    # int8: the sum of both directions is at most 2 and is never read.
    both = (directed + directed.T.tocsr()).tocsr()
    both.sort_indices()
    return Adjacency(both.indptr.astype(np.int64), both.indices.astype(np.int32, copy=False))
