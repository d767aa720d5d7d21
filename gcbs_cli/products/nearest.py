"""The nearest keys of every query, strip by strip: the same lists on every device and for any strips."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows, pair_values
from gcbs_cli.products.backend import Array, Backend, Entries, float32_error
from gcbs_cli.products.hardest import likely_thresholds
from gcbs_cli.products.repeated_rows import distinct_rows
from gcbs_cli.products.tiles import DEFAULT_TILE_COLS, Progress, Tile, run_tiles

STRIP_ROWS = 1024
FULL_ROWS_AT_ONCE = 256
MANY_PAIRS = 1 << 18
"""From so many undecided pairs at once on, pairs of equal rows are computed once."""


@dataclass(frozen=True)
class Nearest:
    """The nearest keys of consecutive queries, falling by canonical similarity, equal ones by rising key.

    queries: which; keys: (n, m) int32; log_sums: (n,) log Σ exp(s / temperature) over all keys, where asked.
    """

    queries: slice
    keys: NDArray[np.int32]
    log_sums: NDArray[np.float64] | None


def nearest_strips(
    pair: PairedRows,
    count: int,
    backend: Backend,
    *,
    skip_own: bool = True,
    temperature: float | None = None,
    seed: int = 0,
    strip_rows: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Nearest]:
    """For each row of pair.x its `count` nearest rows of pair.y (fewer where there are fewer), strip after strip.

    `skip_own`: row i of y is left out of the list of row i of x. `temperature`: asks for the log sums. One pass over
    all products. Memory: the candidates of one strip a worker, about 12 bytes · (3 · count + a few hundred) a query.
    """
    finder = _Finder(pair, min(count, len(pair.y) - skip_own), backend, skip_own)
    limits = likely_thresholds(pair.x, pair.y, max(finder.count, 1), backend, seed)
    x, y = backend.load(pair.x), backend.load(pair.y)
    height = strip_rows or STRIP_ROWS
    everything = slice(0, len(pair.y))
    strips = [Tile(slice(top, min(top + height, len(pair.x))), everything) for top in range(0, len(pair.x), height)]

    def work(strip: Tile) -> Nearest:
        found, log_sums = _candidates(backend, x, y, strip, limits[strip.rows], temperature)
        return Nearest(strip.rows, finder.nearest(strip.rows, found, limits[strip.rows]), log_sums)

    for _, part in run_tiles(backend, strips, work, progress, whole_rows=True):
        yield part


def nearest_keys(
    pair: PairedRows,
    count: int,
    backend: Backend,
    *,
    skip_own: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
) -> NDArray[np.int32]:
    """(N, count) the lists of all queries; memory 4 bytes · count a row."""
    strips = nearest_strips(pair, count, backend, skip_own=skip_own, seed=seed, progress=progress)
    return np.concatenate([part.keys for part in strips])


def _candidates(
    backend: Backend, x: Array, y: Array, strip: Tile, limits: NDArray[np.float32], temperature: float | None
) -> tuple[Entries, NDArray[np.float64] | None]:
    """Entries of the strip above the limit of their row, with columns of the whole matrix, and its rows' log sums."""
    parts: list[Entries] = []
    log_sums = None if temperature is None else np.full(len(limits), -np.inf)
    for left in range(0, strip.cols.stop, DEFAULT_TILE_COLS):
        product = backend.product(x, y, strip.rows, slice(left, min(left + DEFAULT_TILE_COLS, strip.cols.stop)))
        found = backend.above(product, limits[:, None])
        parts.append(Entries(found.rows, found.cols + left, found.values))
        if log_sums is not None and temperature is not None:
            np.logaddexp(log_sums, backend.log_sums(product, 1.0 / temperature, columns=False)[0], out=log_sums)
    joined = Entries(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.cols for part in parts]),
        np.concatenate([part.values for part in parts]),
    )
    return joined, log_sums


@dataclass(frozen=True)
class _Finder:
    """Orders candidates: by fast products where these differ by more than their error, else by canonical values."""

    pair: PairedRows
    count: int
    backend: Backend
    skip_own: bool

    @cached_property
    def error(self) -> float:
        """Bound on the error of the device's products and of those made here."""
        return max(self.backend.error(self.pair.dim), float32_error(self.pair.dim))

    def nearest(self, queries: slice, found: Entries, limits: NDArray[np.float32]) -> NDArray[np.int32]:
        """(n, count) keys; queries whose limit was too high for them are done in full."""
        rows = np.arange(queries.start, queries.stop)
        apart = found.cols != rows[found.rows] if self.skip_own else np.ones(len(found.rows), np.bool_)
        table, numbers = _as_table(len(rows), self.count, Entries(*(part[apart] for part in _parts(found))))
        if self.count == 0:
            return np.empty((len(rows), 0), np.int32)
        enough = _of_rank(table, self.count) > limits + np.float32(4.0 * self.error)
        chosen = np.empty((len(rows), self.count), np.int32)
        chosen[enough] = self._ordered(rows[enough], table[enough], numbers[enough])
        short = np.flatnonzero(~enough)
        for start in range(0, len(short), FULL_ROWS_AT_ONCE):
            part = short[start : start + FULL_ROWS_AT_ONCE]
            chosen[part] = self._in_full(rows[part])
        return chosen

    def _in_full(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        table = self.pair.x[rows] @ self.pair.y.T
        if self.skip_own:
            table[np.arange(len(rows)), rows] = -np.inf
        numbers = np.broadcast_to(np.arange(table.shape[1], dtype=np.int32), table.shape)
        return self._ordered(rows, table, numbers)

    def _ordered(
        self, rows: NDArray[np.int64], table: NDArray[np.float32], numbers: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """(n, count) the keys of each line's largest, by (canonical value, key)."""
        if len(rows) == 0:
            return np.empty((0, self.count), np.int32)
        least = _of_rank(table, self.count) - np.float32(2.0 * self.error)
        width = int(np.count_nonzero(table >= least[:, None], axis=1).max())
        order = np.argpartition(table, table.shape[1] - width, axis=1)[:, table.shape[1] - width :]
        values, keys = np.take_along_axis(table, order, 1), np.take_along_axis(numbers, order, 1)
        order = np.argsort(-values, axis=1, kind="stable")
        values, keys = np.take_along_axis(values, order, 1), np.take_along_axis(keys, order, 1)
        settled = values.astype(np.float64)
        lines, places = np.nonzero(_undecided(values, least, np.float32(2.0 * self.error)))
        settled[lines, places] = self._canonical(rows[lines], keys[lines, places])
        # Fewer than a handful of lines are out of order once settled; sorting all of them is one call.
        ranked = np.lexsort((keys, -settled), axis=1)[:, : self.count]
        return np.ascontiguousarray(np.take_along_axis(keys, ranked, axis=1))

    def _canonical(self, rows: NDArray[np.int64], cols: NDArray[np.int32]) -> NDArray[np.float64]:
        """Canonical similarities; of many pairs those of equal contents are computed once."""
        if len(rows) <= MANY_PAIRS:
            return pair_values(self.pair, rows.astype(np.int32), cols)
        (row_of, row_number), (col_of, col_number) = self._contents
        wanted, places = np.unique(row_number[rows] * len(col_of) + col_number[cols], return_inverse=True)
        first, second = np.divmod(wanted, len(col_of))
        return pair_values(self.pair, row_of[first].astype(np.int32), col_of[second].astype(np.int32))[places]

    @cached_property
    def _contents(self) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]:
        return tuple(distinct_rows(side) for side in (self.pair.x, self.pair.y))


def _parts(found: Entries) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    return found.rows, found.cols, found.values


def _as_table(lines: int, least_width: int, found: Entries) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Candidates as lines of equal width; −inf and key −1 where a line has fewer."""
    order = np.argsort(found.rows, kind="stable")
    counts = np.bincount(found.rows, minlength=lines)
    filled = np.arange(max(int(counts.max()), least_width)) < counts[:, None]
    table = np.full(filled.shape, -np.inf, np.float32)
    numbers = np.full(filled.shape, -1, np.int32)
    table[filled], numbers[filled] = found.values[order], found.cols[order]
    return table, numbers


def _of_rank(table: NDArray[np.float32], rank: int) -> NDArray[np.float32]:
    place = table.shape[1] - rank
    return np.partition(table, place, axis=1)[:, place]


def _undecided(values: NDArray[np.float32], least: NDArray[np.float32], distance: np.float32) -> NDArray[np.bool_]:
    """Entries, of lines sorted falling, that lie so near a neighbour that rounding may have exchanged them."""
    wanted = values >= least[:, None]
    with np.errstate(invalid="ignore"):  # −inf − −inf, where lines are not full
        near = (values[:, :-1] - values[:, 1:] <= distance) & wanted[:, 1:]
    found = np.zeros(values.shape, np.bool_)
    found[:, 1:] |= near
    found[:, :-1] |= near
    return found
