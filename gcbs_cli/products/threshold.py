"""Find t, above which entries of X Yᵀ make an edge: given, or a quantile of all entries, mostly by a seeded sample.

The N positives on the diagonal are no entries here: they are the largest, and no edges.
"""

from dataclasses import dataclass
from math import ceil, exp, sqrt
from typing import Any

import numpy as np

from gcbs_cli.data.grid import LARGEST_SUM, Grid
from gcbs_cli.products.operations import EVERYTHING, Backend, Limits, Loaded, ProgressCallback, Tile
from gcbs_cli.settings.plan import ThresholdSettings
from gcbs_cli.system.arrays import Array, Float32s, Int32s, Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import available_cpus, available_memory
from gcbs_cli.system.randomness import Stream

LEAST_ROWS = 2048
MOST_ROWS = 16384
SAMPLE_TAIL = 1000
"""The sample grows until so many of its entries are expected above the quantile."""
NORMAL_975 = 1.959964
"""The 97.5 % quantile of the normal distribution, for intervals of 95 %."""
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
    count: int
    """N, the number of all rows."""

    @property
    def whole(self) -> bool:
        """Whether the sample is the whole matrix."""
        return len(self.rows) == self.count

    def number(self, quantile: float) -> int:
        """The least sampled number with at least a share q of the sample at or below it."""
        return int(of_rank(self.numbers, rank_of(quantile, self.entries)))

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
        deviation = sqrt(spread / size * (1.0 - size / self.count))
        least = 1.0 / self.entries
        factor = exp(NORMAL_975 * deviation / max(tail, least))
        return 1.0 - min(1.0, max(tail, least) * factor), 1.0 - tail / factor


def sample_rows(count: int, quantile: float) -> int:
    """How many of N rows a sample needs, and as many columns."""
    return min(count, max(LEAST_ROWS, min(MOST_ROWS, ceil(sqrt(SAMPLE_TAIL / max(1.0 - quantile, 1e-12))))))


def draw_sample(grid: Grid, quantile: float, seed: int) -> Sample:
    """Seeded rows and columns of a grid with sides of equal length, enough of them for the quantile asked.

    Memory: 4 bytes for each of at most MOST_ROWS² entries, and as much again while they are ordered.
    """
    from threadpoolctl import threadpool_limits

    count = len(grid.x)
    size = sample_rows(count, quantile)
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
    requested: float | None = None
    """q, unless t was given."""
    interval: tuple[float, float] | None = None
    """95 % interval of the share of all entries at or below t, where it was estimated."""
    sampled: int = 0
    """Rows, and as many columns, that were drawn; 0 where all entries were read."""


def find_threshold(
    grid: Grid, settings: ThresholdSettings, seed: int, backend: Backend, progress: ProgressCallback | None = None
) -> Threshold:
    """t by the settings. Of the estimators `sample` reads a seeded sample, `chunks` and `exact` every entry.

    `chunks`: GCBS, algorithm 1, the (lower) median over chunks of rows of each one's quantile.
    Raises BadInput where the memory does not hold the tail above an exact quantile.
    """
    count = len(grid.x)
    quantile = settings.requested_quantile(count)
    if quantile is None:
        similarity = settings.threshold or 0.0
        number = max(-LARGEST_SUM, min(LARGEST_SUM, grid.number(similarity)))  # float32 holds no more
        return Threshold(number, similarity)
    sample = draw_sample(grid, quantile, seed)
    sampled = 0
    if settings.quantile_method == "sample":
        number = sample.number(quantile)
        interval = sample.interval(number)
        if not sample.whole:
            sampled = len(sample.rows)
    else:
        loaded = backend.load(grid.x, grid.y)
        exact = settings.quantile_method == "exact"
        height = count if exact else CHUNK_ROWS
        quantiles = []
        for top in range(0, count, height):
            rows = slice(top, min(top + height, count))
            quantiles.append(_quantile(grid, loaded, rows, quantile, sample, backend, progress))
        number, above = sorted(quantiles)[(len(quantiles) - 1) // 2]
        share = 1.0 - above / (count * (count - 1))
        interval = (share, share) if exact else sample.interval(number)
    return Threshold(number, grid.similarity(number), quantile, interval, sampled)


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
    count = len(grid.y)
    rank = rank_of(quantile, (rows.stop - rows.start) * (count - 1))
    tiles = backend.tiles(rows.stop, count, rows.start)
    share = 1.0 - quantile
    tail = np.empty(0, np.int32)

    def numbers_of(tile: Tile) -> Int32s:
        entries = backend.scan(loaded, tile, [limits])[0].off_diagonal()
        return entries.values + grid.x_offsets[entries.rows] + grid.y_offsets[entries.cols]

    def tell(done: int, _: int) -> None:
        if progress is not None:
            progress(rows.start * count + done, count**2)

    while len(tail) < rank:
        share *= WIDER_TAIL
        floor = sample.number(1.0 - share) if share < 1.0 else EVERYTHING
        limits = Limits(np.int32(floor) - grid.x_offsets, -grid.y_offsets)
        parts: list[Int32s] = []
        size = 0
        for _, numbers in backend.run(tiles, numbers_of, tell):
            size += len(numbers)
            if size > most:  # equal numbers, which no sample tells apart
                raise BadInput(
                    f"the tail above the quantile has {size:,} entries already, and memory has room for {most:,}; "
                    "use a higher --quantile, or --quantile-method sample"
                )
            parts.append(numbers)
        tail = np.concatenate(parts)
    number = of_rank(tail, rank)
    return int(number), int(np.count_nonzero(tail > number))
