"""A seeded sample of the numbers of a grid, its quantiles and how sure they are."""

from dataclasses import dataclass
from math import ceil, exp, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.grid import Grid
from gcbs_cli.products.operations import Entries
from gcbs_cli.system.arrays import Float32s, Ints
from gcbs_cli.system.limits import available_cpus

LEAST_ROWS = 2048
MOST_ROWS = 16384
ABOVE_WANTED = 1000
"""The sample grows until so many of its entries are expected above the quantile."""
NORMAL_975 = 1.959964


def rank_of(quantile: float, size: int) -> int:
    """Counted from the largest of `size` values: the rank of the least one with a share q of all at or below it."""
    return size - max(ceil(round(quantile * size, 6)), 1) + 1


def of_rank(values: NDArray[Any], rank: int) -> Any:
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
    """(m, m), whole."""
    of: int
    """N, the rows there are."""

    @property
    def whole(self) -> bool:
        """Whether the sample is the whole matrix."""
        return len(self.rows) == self.of

    def number(self, quantile: float) -> int:
        """The least sampled number with at least a share q of the sample at or below it."""
        return int(of_rank(self.numbers, rank_of(quantile, self.numbers.size)))

    def reaching(self, number: int) -> Entries:
        """The sampled entries from a number on, with their numbers."""
        rows, cols = np.nonzero(self.numbers >= number)
        values = self.numbers[rows, cols].astype(np.int32)
        return Entries(self.rows[rows].astype(np.int32), self.cols[cols].astype(np.int32), values)

    def share_above(self, number: int) -> float:
        """Share of the sampled entries above a number."""
        return float(np.count_nonzero(self.numbers > number) / self.numbers.size)

    def interval(self, number: int) -> tuple[float, float]:
        """95 % interval for the share of all N² entries at or below the number.

        Entries of one row, or of one column, depend on each other (a row near everything is above the threshold
        everywhere), so the variance is the jackknife's over rows plus that over columns, with the correction for
        drawing without replacement; on the logarithm of the tail, which keeps it inside (0, 1).
        """
        above = self.numbers > number
        tail = float(above.mean())
        if self.whole:
            return 1.0 - tail, 1.0 - tail
        size = len(self.rows)
        spread = above.mean(axis=1, dtype=np.float64).var(ddof=1) + above.mean(axis=0, dtype=np.float64).var(ddof=1)
        deviation = sqrt(spread / size * (1.0 - size / self.of))
        least = 1.0 / self.numbers.size
        factor = exp(NORMAL_975 * deviation / max(tail, least))
        return 1.0 - min(1.0, max(tail, least) * factor), 1.0 - tail / factor


def draw_sample(grid: Grid, quantile: float, seed: int, *, least: int = LEAST_ROWS, most: int = MOST_ROWS) -> Sample:
    """Seeded rows and columns of a grid with sides of equal length, enough of them for the quantile asked.

    Memory: 4 bytes for each of at most `most`² entries, and as much again while they are ordered.
    """
    from threadpoolctl import threadpool_limits

    count = len(grid.x)
    size = min(count, max(least, min(most, ceil(sqrt(ABOVE_WANTED / max(1.0 - quantile, 1e-12))))))
    generator = np.random.default_rng([seed, 0x9C8])
    rows, cols = (np.sort(generator.choice(count, size, replace=False)) for _ in range(2))
    # BLAS follows affinity and OMP_NUM_THREADS by itself, but no cgroup's quota.
    with threadpool_limits(limits=available_cpus(), user_api="blas"):
        numbers = grid.x[rows].astype(np.float32) @ grid.y[cols].astype(np.float32).T
    numbers += grid.x_offsets[rows, None].astype(np.float32)
    numbers += grid.y_offsets[cols].astype(np.float32)
    return Sample(rows, cols, numbers, count)
