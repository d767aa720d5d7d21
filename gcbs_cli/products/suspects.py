"""Suspected false negatives: pairs of rows so alike that calling one a negative of the other is probably wrong."""

from dataclasses import dataclass, replace

import numpy as np

from gcbs_cli.data.grid import Grid
from gcbs_cli.products.operations import Entries
from gcbs_cli.system.arrays import Array, Bools, Int32s, Ints, group_numbers, ragged


def suspected(grid: Grid, reaching: Entries, margin: float) -> Bools:
    """(n,) which of the entries from t on are at least margin · s_ii or margin · s_jj; never those of the diagonal.

    `reaching`: with numbers of the grid, offsets included. All of it is exact but one product with the margin, which is
    the same on every machine.
    """
    own = margin * (grid.diagonal() + grid.constant)
    values = reaching.values.astype(np.int64) + grid.constant
    limits = np.minimum(own[reaching.rows], own[reaching.cols])
    return (values >= limits) & (reaching.rows != reaching.cols)


@dataclass(frozen=True)
class SuspectPairs:
    """Unordered pairs of rows, each once: (P,) lower and (P,) higher index, int32, sorted.

    `groups`: (N,) ids; rows with the same id >= 0 are pairs too, and not listed: there may be far too many.
    `positives`: (N,) ids; but rows of a group with the same one >= 0 are known to be right answers, and no pairs.
    """

    lower: Int32s
    higher: Int32s
    groups: Ints | None = None
    positives: Ints | None = None

    def __len__(self) -> int:
        return len(self.lower)

    def both_ways(self) -> tuple[Int32s, Int32s]:
        """Every pair as (i, j) and as (j, i)."""
        return np.concatenate([self.lower, self.higher]), np.concatenate([self.higher, self.lower])

    def chosen(self, which: Bools) -> "SuspectPairs":
        """Of the pairs that are listed only these."""
        return replace(self, lower=self.lower[which], higher=self.higher[which])

    def in_batches(self, batch_of_row: Ints) -> "SuspectPairs":
        """Only the pairs whose two rows share a batch, those of groups listed too."""
        listed = self.chosen(batch_of_row[self.lower] == batch_of_row[self.higher])
        if self.groups is None:
            return listed
        first, second = group_mates(batch_of_row * 2 * len(batch_of_row) + group_numbers(self.groups))
        if self.positives is not None:
            numbers = group_numbers(self.positives)
            unknown = numbers[first] != numbers[second]
            first, second = first[unknown], second[unknown]
        ends = np.concatenate([listed.lower, first]), np.concatenate([listed.higher, second])
        return pairs_of(*ends, len(batch_of_row))

    def rows(self) -> int:
        """How many rows are in at least one of the pairs."""
        return len(np.unique(np.concatenate([self.lower, self.higher])))


NO_SUSPECTS = SuspectPairs(np.empty(0, np.int32), np.empty(0, np.int32))


def group_mates(groups: Ints) -> tuple[Ints, Ints]:
    """All pairs of rows with the same id, as one (P,) and the other (P,)."""
    rows = np.argsort(groups, kind="stable")
    stops = np.searchsorted(groups[rows], groups[rows], side="right")
    places, within = ragged(stops - np.arange(len(rows)) - 1)  # each row with all later rows of its group
    return rows[places], rows[places + within + 1]


def pairs_of(rows: Array, cols: Array, count: int) -> SuspectPairs:
    """The unordered pairs among directed ones; `count`: N."""
    keys = np.unique(np.minimum(rows, cols).astype(np.int64) * count + np.maximum(rows, cols))
    lower, higher = np.divmod(keys, count)
    return SuspectPairs(lower.astype(np.int32), higher.astype(np.int32))
