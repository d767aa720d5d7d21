"""Find t, above which entries of X Yᵀ make an edge: given, or a quantile of all entries, mostly by a seeded sample.

The N positives on the diagonal are no entries here: they are the largest, and no edges.
"""

from dataclasses import dataclass
from math import ceil, exp, sqrt
from typing import Any

import numpy as np

from gcbs_cli.data.grid import LARGEST_SUM, Grid
from gcbs_cli.products.operations import EVERYTHING, Backend, Entries, Limits, Loaded, ProgressCallback, Tile
from gcbs_cli.settings.plan import ThresholdSettings
from gcbs_cli.system.arrays import Array, Float32s, Int32s, Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import available_cpus, available_memory
from gcbs_cli.system.randomness import Stream

LEAST_ROWS = 2048
MOST_ROWS = 16384
ABOVE_WANTED = 1000
"""The sample grows until so many of its entries are expected above the quantile."""
ENTRIES_WANTED = 1 << 16
NORMAL_975 = 1.959964
CHUNK_ROWS = 1024
"""Rows of a chunk of the `chunks` estimator, as in GCBS; no size of a tile changes it."""
BYTES_PER_TAIL_ENTRY = 8
"""Each number above the quantile, and a copy while they are joined."""
WIDER_TAIL = 4.0
"""A quantile is looked for among so many times the entries that should be above it, and again, where these are few."""


def rank_of(quantile: float, size: int) -> int:
    """Counted from the largest of `size` values: the rank of the least one with a share q of all at or below it."""
    return size - max(ceil(round(quantile * size, 6)), 1) + 1


def of_rank(values: Array, rank: int) -> Any:
    """The value of this rank among all, 1 for the largest."""
    return np.partition(values, values.size - rank, axis=None)[values.size - rank]


@dataclass(frozen=True)
class Sample:
    """The numbers of random rows and random columns, drawn without replacement."""

    rows: Ints
    """(m,) sorted."""
    cols: Ints
    """(m,) sorted."""
    numbers: Float32s
    """(m, m), whole; −∞ on the diagonal of X Yᵀ."""
    entries: int
    """How many of them are off the diagonal."""
    of: int
    """N, the rows there are."""

    @property
    def whole(self) -> bool:
        """Whether the sample is the whole matrix."""
        return len(self.rows) == self.of

    def number(self, quantile: float) -> int:
        """The least sampled number with at least a share q of the sample at or below it."""
        return int(of_rank(self.numbers, rank_of(quantile, self.entries)))

    def reaching(self, number: int) -> Entries:
        """The sampled entries from a number on, with their numbers; where these are many, those of some rows."""
        step = 1 + np.count_nonzero(self.numbers >= number) // ENTRIES_WANTED
        rows, cols = np.nonzero(self.numbers[::step] >= number)
        values = self.numbers[::step][rows, cols].astype(np.int32)
        return Entries(self.rows[::step][rows].astype(np.int32), self.cols[cols].astype(np.int32), values)

    def share_above(self, number: int) -> float:
        """Share of the sampled entries above a number."""
        return float(np.count_nonzero(self.numbers > number) / self.entries)

    def interval(self, number: int) -> tuple[float, float]:
        """95 % interval for the share of all N(N − 1) entries at or below the number.

        Entries of one row, or of one column, depend on each other (a row near everything is above the threshold
        everywhere), so the variance is the jackknife's over rows plus that over columns, with the correction for
        drawing without replacement; on the logarithm of the tail, which keeps it inside (0, 1).
        """
        above = self.numbers > number
        tail = self.share_above(number)
        if self.whole:
            return 1.0 - tail, 1.0 - tail
        size = len(self.rows)
        spread = above.mean(axis=1, dtype=np.float64).var(ddof=1) + above.mean(axis=0, dtype=np.float64).var(ddof=1)
        deviation = sqrt(spread / size * (1.0 - size / self.of))
        least = 1.0 / self.entries
        factor = exp(NORMAL_975 * deviation / max(tail, least))
        return 1.0 - min(1.0, max(tail, least) * factor), 1.0 - tail / factor


def sample_rows(count: int, quantile: float, least: int = LEAST_ROWS, most: int = MOST_ROWS) -> int:
    """How many of N rows a sample needs, and as many columns."""
    return min(count, max(least, min(most, ceil(sqrt(ABOVE_WANTED / max(1.0 - quantile, 1e-12))))))


def draw_sample(grid: Grid, quantile: float, seed: int, *, least: int = LEAST_ROWS, most: int = MOST_ROWS) -> Sample:
    """Seeded rows and columns of a grid with sides of equal length, enough of them for the quantile asked.

    Memory: 4 bytes for each of at most `most`² entries, and as much again while they are ordered.
    """
    from threadpoolctl import threadpool_limits

    count = len(grid.x)
    size = sample_rows(count, quantile, least, most)
    draws = Stream.THRESHOLD_SAMPLE.generator(seed)
    rows, cols = (np.sort(draws.choice(count, size, replace=False)) for _ in range(2))
    # BLAS follows affinity and OMP_NUM_THREADS by itself, but no cgroup's quota.
    with threadpool_limits(limits=available_cpus(), user_api="blas"):
        numbers = grid.numbers(rows, cols)
    _, *positives = np.intersect1d(rows, cols, assume_unique=True, return_indices=True)
    numbers[tuple(positives)] = -np.inf
    return Sample(rows, cols, numbers, size**2 - len(positives[0]), count)


@dataclass(frozen=True)
class Threshold:
    """t, and what is known of it."""

    number: int
    """Of the grid: entries above it make an edge."""
    similarity: float
    """The same as a similarity, where one was given that one."""
    scale: float
    """S of that grid."""
    requested: float | None = None
    """q, unless t was given."""
    interval: tuple[float, float] | None = None
    """95 % interval of the share of all entries at or below t, where it was estimated."""
    sampled: int = 0
    """Rows, and as many columns, that were drawn; 0 where all entries were read."""


def find_threshold(
    grid: Grid,
    graph: ThresholdSettings,
    seed: int,
    backend: Backend,
    progress: ProgressCallback | None = None,
    *,
    sample: Sample | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> Threshold:
    """t by the settings. Of the estimators `sample` reads a seeded sample, `chunks` and `exact` every entry.

    `chunks`: GCBS, algorithm 1, the (lower) median over chunks of rows of each one's quantile; `sample`: by default
    drawn by the seed. Raises BadInput where the memory does not hold the tail above an exact quantile.
    """
    count = len(grid.x)
    quantile, method = graph.requested_quantile(count), graph.quantile_method
    if quantile is None:
        given = float(graph.threshold or 0.0)
        return Threshold(max(-LARGEST_SUM, min(LARGEST_SUM, grid.number(given))), given, grid.scale)
    sample = sample or draw_sample(grid, quantile, seed)
    drawn = 0
    if method == "sample":
        number = sample.number(quantile)
        interval, drawn = sample.interval(number), 0 if sample.whole else len(sample.rows)
    else:
        loaded, height, tails = backend.load(grid.x, grid.y), chunk_rows if method == "chunks" else count, []
        for top in range(0, count, height):
            rows = slice(top, min(top + height, count))
            tails.append(_quantile(grid, loaded, rows, quantile, sample, backend, progress))
        number, above = sorted(tails)[(len(tails) - 1) // 2]
        achieved = 1.0 - above / (count * (count - 1))
        interval = (achieved, achieved) if method == "exact" else sample.interval(number)
    return Threshold(number, grid.similarity(number), grid.scale, quantile, interval, drawn)


def _quantile(
    grid: Grid,
    loaded: Loaded,
    rows: slice,
    quantile: float,
    sample: Sample,
    backend: Backend,
    progress: ProgressCallback | None,
) -> tuple[int, int]:
    """The quantile of the entries of some rows, and how many of them are above it."""
    most = available_memory() // BYTES_PER_TAIL_ENTRY
    count, height, share = len(grid.y), rows.stop - rows.start, 1.0 - quantile
    rank, tail = rank_of(quantile, height * (count - 1)), np.empty(0, np.int32)
    tiles = backend.tiles(rows.stop, count, rows.start)

    def numbers_of(tile: Tile) -> Int32s:
        (found,) = backend.scan(loaded, tile, [limits])
        found = found.off_diagonal()
        return found.values + grid.x_offsets[found.rows] + grid.y_offsets[found.cols]

    def tell(done: int, _: int) -> None:
        if progress is not None:
            progress(rows.start * count + done, count**2)

    while len(tail) < rank:
        share *= WIDER_TAIL
        floor = sample.number(1.0 - share) if share < 1.0 else EVERYTHING
        limits = Limits(np.int32(floor) - grid.x_offsets, -grid.y_offsets)
        parts: list[Int32s] = []
        entries = 0
        for _, numbers in backend.run(tiles, numbers_of, tell):
            entries += len(numbers)
            if entries > most:  # equal numbers, which no sample tells apart
                raise BadInput(
                    f"the tail above the quantile has {entries:,} entries already, and memory has room for {most:,}; "
                    "use a higher --quantile, or --quantile-method sample"
                )
            parts.append(numbers)
        tail = np.concatenate(parts)
    number = of_rank(tail, rank)
    return int(number), int(np.count_nonzero(tail > number))
