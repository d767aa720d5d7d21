"""Which rows are positives of each other."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows, pair_values
from gcbs_cli.system.arrays import ragged


@dataclass(frozen=True)
class Positives:
    """Rows with the same id are positives of each other; every row is its own. ids: (N,) int64."""

    ids: NDArray[np.int64]

    @cached_property
    def most(self) -> int:
        """The largest number of positives that a row has."""
        return int(np.bincount(self._numbers).max())

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        """(N,) the ids as 0, 1, 2 …"""
        return np.unique(self.ids, return_inverse=True)[1].reshape(-1).astype(np.int64)

    @cached_property
    def _members(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows by id, and where each id's rows begin."""
        order = np.argsort(self._numbers, kind="stable")
        return order, np.searchsorted(self._numbers[order], np.arange(self._numbers.max() + 2))

    def of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Every positive of these rows: its place in `rows`, and the row that it is. Both (P,), by place."""
        order, starts = self._members
        first = starts[self._numbers[rows]]
        counts = starts[self._numbers[rows] + 1] - first
        places, within = ragged(counts)
        return places, order[first[places] + within]

    def least_scores(self, pair: PairedRows, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """(n,) the least canonical similarity of each row to one of its positives."""
        places, others = self.of(rows)
        scores = pair_values(pair, rows[places].astype(np.int32), others.astype(np.int32))
        return np.minimum.reduceat(scores, np.searchsorted(places, np.arange(len(rows))))


def each_its_own(rows: int) -> Positives:
    """Row i's only positive is row i."""
    return Positives(np.arange(rows, dtype=np.int64))
