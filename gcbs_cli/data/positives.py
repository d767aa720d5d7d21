"""Which rows are positives of each other."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gcbs_cli.data.pairs import PairedRows, pair_values
from gcbs_cli.system.arrays import Floats, Ints, ragged


@dataclass(frozen=True)
class Positives:
    """Rows with the same id are positives of each other; every row is its own. ids: (N,) int64."""

    ids: Ints

    @property
    def most(self) -> int:
        """The largest number of positives that a row has."""
        return int(np.unique(self.ids, return_counts=True)[1].max())

    @cached_property
    def _by_id(self) -> tuple[Ints, Ints]:
        """The rows in the order of their ids, and these ids."""
        order = np.argsort(self.ids, kind="stable")
        return order, self.ids[order]

    def of(self, rows: Ints) -> tuple[Ints, Ints]:
        """Every positive of these rows: its place in `rows`, and the row that it is. Both (P,), by place."""
        order, ids = self._by_id
        first = np.searchsorted(ids, self.ids[rows])
        places, within = ragged(np.searchsorted(ids, self.ids[rows], side="right") - first)
        return places, order[first[places] + within]

    def least_scores(self, pair: PairedRows, rows: Ints) -> Floats:
        """(n,) the least canonical similarity of each row to one of its positives."""
        places, others = self.of(rows)
        scores = pair_values(pair, rows[places].astype(np.int32), others.astype(np.int32))
        return np.minimum.reduceat(scores, np.searchsorted(places, np.arange(len(rows))))


def each_its_own(rows: int) -> Positives:
    """Row i's only positive is row i."""
    return Positives(np.arange(rows, dtype=np.int64))
