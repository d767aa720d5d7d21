"""The hardest keys of some queries by (canonical similarity, index): among candidates, or among all keys."""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows, pair_values
from gcbs_cli.products.backend import float32_error
from gcbs_cli.products.canonical_values import double_error, settle
from gcbs_cli.products.double_search import LARGE_SHARE
from gcbs_cli.products.repeated_rows import distinct_rows
from gcbs_cli.system.threads import in_parts

FULL_ENTRIES = 1 << 22
"""Products held at once by each thread that compares queries with all keys; about 40 bytes each."""
MOST_FULL_ROWS = 256
DOUBLE_COLS = 4096
TRIAL_LINES = 8


class HardestKeys:
    """Picks the `top` hardest keys of queries of one side (0: columns for rows, 1: rows for columns)."""

    def __init__(self, pair: PairedRows, side: int, top: int, error: float) -> None:
        """`error`: bound on that of the fast values."""
        self.pair, self.side, self.top, self.error = pair, side, top, error
        self.queries, self.keys = (pair.x, pair.y) if side == 0 else (pair.y, pair.x)

    def choose(
        self,
        queries: NDArray[np.int64],
        table: NDArray[np.floating],
        numbers: NDArray[np.int32],
        error: float | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
        """The keys of the `top` largest of each line by (canonical value, index), and the fast value of the last one.

        `numbers`: the keys of the table's places, rising in each line. Fast values within twice their error of that
        last one are replaced by canonical ones: whatever lies above is among the largest for certain, whatever lies
        below is not.
        """
        reach = 2.0 * (self.error if error is None else error)
        width = table.shape[1]
        order = np.argpartition(table, width - self.top, axis=1)[:, width - self.top :]
        chosen = np.take_along_axis(numbers, order, axis=1)
        last = np.take_along_axis(table, order, axis=1).min(axis=1)
        with np.errstate(invalid="ignore"):  # −inf fills lines that have too few
            may_be = table >= (last - reach)[:, None]
            counts = may_be.sum(axis=1)
            unsure = np.flatnonzero((counts > self.top) & np.isfinite(last))
        if len(unsure):
            lines, places = np.nonzero(may_be[unsure])
            values, keys = table[unsure[lines], places], numbers[unsure[lines], places]
            ends = queries[unsure[lines]], keys.astype(np.int64)
            limits = last[unsure[lines]].astype(np.float64)
            settled = settle(self.pair, ends[self.side], ends[1 - self.side], values, limits, reach)
            chosen[unsure] = _largest(*as_lines(counts[unsure], settled, keys, self.top), self.top)
        return chosen, last

    def in_full(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """(n, top) the hardest keys of these queries, from their products with all keys; equal queries at once.

        Memory: about 40 bytes · `FULL_ENTRIES` a thread, or 40 · N.
        """
        chosen = np.empty((len(rows), self.top), np.int32)
        first, contents = distinct_rows(self.queries[rows])
        copies = np.bincount(contents, minlength=len(first))
        alone = np.flatnonzero(copies[contents] == 1)
        chosen[alone] = self._of_all_keys(rows[alone], self.top, skip_own=True)
        repeated = np.flatnonzero(copies[contents] > 1)
        if len(repeated):
            several = np.flatnonzero(copies > 1)
            lists = self._falling(rows[first[several]], min(self.top + 1, len(self.keys)))
            wanted = lists[np.searchsorted(several, contents[repeated])]
            # Without its own key a query has the others of the list, else all but the last.
            apart = wanted != rows[repeated, None]
            apart[:, -1] &= ~apart.all(axis=1)
            chosen[repeated] = wanted[apart].reshape(-1, self.top)
        return chosen

    def _falling(self, rows: NDArray[np.int64], top: int) -> NDArray[np.int32]:
        """(n, top) the hardest of all keys, falling, equal ones by rising index."""
        keys = self._of_all_keys(rows, top, skip_own=False)
        ends = np.repeat(rows.astype(np.int32), top), keys.reshape(-1)
        values = pair_values(self.pair, ends[self.side], ends[1 - self.side]).reshape(keys.shape)
        return np.take_along_axis(keys, np.lexsort((keys, -values), axis=1), axis=1)

    def _of_all_keys(self, rows: NDArray[np.int64], top: int, *, skip_own: bool) -> NDArray[np.int32]:
        """(n, top) the hardest of all keys, in no order."""
        chooser = HardestKeys(self.pair, self.side, top, self.error)
        chosen = np.empty((len(rows), top), np.int32)

        def fill(start: int, stop: int) -> None:
            part = rows[start:stop]
            table: NDArray[np.floating] = self.queries[part] @ self.keys.T
            own = np.arange(len(part)), part
            if skip_own:
                table[own] = -np.inf
            error = self.error
            if self._undecided(table, top) > LARGE_SHARE:
                table, error = self._in_double(part), double_error(self.pair.dim)
                if skip_own:
                    table[own] = -np.inf
            numbers = np.broadcast_to(np.arange(len(self.keys), dtype=np.int32), table.shape)
            chosen[start:stop] = chooser.choose(part, table, numbers, error)[0]

        in_parts(len(rows), full_rows_at_once(len(self.keys)), fill)
        return chosen

    def _undecided(self, table: NDArray[np.floating], top: int) -> float:
        """The share of the entries that lie too near their line's last one of `top`, by a few of the lines."""
        lines = table[:: max(1, len(table) // TRIAL_LINES)]
        last = np.partition(lines, lines.shape[1] - top, axis=1)[:, lines.shape[1] - top, None]
        return float((np.abs(lines - last) <= 2.0 * self.error).mean())

    def _in_double(self, part: NDArray[np.int64]) -> NDArray[np.float64]:
        """Products with all keys in float64, some keys after the others."""
        queries = self.queries[part].astype(np.float64)
        table = np.empty((len(part), len(self.keys)))
        for start in range(0, len(self.keys), DOUBLE_COLS):
            stop = min(start + DOUBLE_COLS, len(self.keys))
            np.matmul(queries, self.keys[start:stop].astype(np.float64).T, out=table[:, start:stop])
        return table


def full_rows_at_once(keys: int) -> int:
    """How many queries a thread compares with so many keys at once."""
    return max(1, min(MOST_FULL_ROWS, FULL_ENTRIES // keys))


def hardest_of(pair: PairedRows, side: int, rows: NDArray[np.int64], top: int) -> NDArray[np.int32]:
    """(n, top) the hardest columns of a few rows (side 0), or rows of a few columns (side 1), in no order."""
    return HardestKeys(pair, side, top, float32_error(pair.dim)).in_full(rows)


def as_lines(
    counts: NDArray[np.int64], values: NDArray[np.floating], keys: NDArray[np.int32], top: int
) -> tuple[NDArray[np.floating], NDArray[np.int32]]:
    """Candidates, so many of each line one after the other, as lines of equal width; −inf and key −1 fill them."""
    width = max(int(counts.max()), top)
    filled = np.arange(width) < counts[:, None]
    table = np.full(filled.shape, -np.inf, values.dtype)
    numbers = np.full(filled.shape, -1, np.int32)
    table[filled], numbers[filled] = values, keys
    return table, numbers


def _largest(table: NDArray[np.floating], numbers: NDArray[np.int32], top: int) -> NDArray[np.int32]:
    """(n, top) the numbers of the largest of each line; of equal ones those that come first."""
    place = table.shape[1] - top
    last = np.partition(table, place, axis=1)[:, place, None]
    above, equal = table > last, table == last
    left = top - above.sum(axis=1, keepdims=True)
    return numbers[above | (equal & (np.cumsum(equal, axis=1) <= left))].reshape(-1, top)
