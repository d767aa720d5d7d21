"""A seeded sample of the products, its quantiles and how sure they are."""

from dataclasses import dataclass, replace
from math import ceil, exp, sqrt

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.backend import below, float32_error
from gcbs_cli.products.canonical_values import FLOAT64_UNIT_ROUNDOFF, double_error, of_rank, order_statistic, settle
from gcbs_cli.products.double_search import LARGE_SHARE, STRIP_ROWS
from gcbs_cli.products.quantile_estimate import QuantileEstimate, QuantileMethod
from gcbs_cli.system.limits import available_cpus

LEAST_SAMPLE_ROWS = 2048
MOST_SAMPLE_ROWS = 16384
EXCEEDANCES_WANTED = 1000
"""The sample grows until so many of its entries are expected above the quantile."""
SHIFTED_ROUNDING = 2.0**-22
"""Of a float64 number rounded to float32, relative to it, with room for the comparison's own rounding."""
NORMAL_975 = 1.959964


@dataclass(frozen=True)
class Sample:
    """The products of random rows and random columns, drawn without replacement.

    `rows`, `cols`: (m,) sorted indices; `products`: (m, m) float32, less `shift`, and off by at most `error`; where the
    shift is not 0 they were float64 before, and rounding to float32 adds to the error in proportion to what is left.
    """

    pair: PairedRows
    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    products: NDArray[np.float32]
    error: float
    shift: float = 0.0

    def error_at(self, value: float) -> float:
        """How far a product may be from the true one when the two lie on different sides of this (shifted) value."""
        return self.error + (0.0 if self.shift == 0.0 else SHIFTED_ROUNDING * abs(value))

    @property
    def whole(self) -> bool:
        """Whether the sample is the whole matrix."""
        return len(self.rows) == self.pair.rows

    def threshold(self, quantile: float) -> float:
        """The least sampled value with at least a share q of the sample at or below it."""
        size = self.products.size
        rank = size - ceil(round(quantile * size, 6)) + 1
        flat = self.products.reshape(-1)
        candidates = np.flatnonzero(flat >= self._floor(rank))
        rows, cols = np.divmod(candidates, len(self.cols))
        values = flat[candidates]
        error = self.error_at(float(of_rank(values, rank)))
        return order_statistic(self.pair, self.rows[rows], self.cols[cols], values, rank, error)

    def _floor(self, rank: int) -> float:
        """A number with more than `rank` entries above it, so that only the tail has to be ordered."""
        flat = self.products.reshape(-1)
        every = max(1, flat.size // (1 << 18))
        thin = flat[::every]
        place = len(thin) - ceil(1.2 * rank / every) - 64
        if place <= 0:
            return -np.inf
        guess = float(np.partition(thin, place)[place])
        error = self.error_at(guess)
        return guess - 2.0 * error if np.count_nonzero(flat > guess + 2.0 * error) >= rank else -np.inf

    def share_above(self, threshold: float) -> float:
        """Share of sampled entries above a threshold."""
        return float(self._above(threshold).mean())

    def share_reaching(self, threshold: float) -> float:
        """Share of sampled entries at or above a threshold."""
        return float(self._above(threshold, ties=True).mean())

    def _above(self, threshold: float, *, ties: bool = False) -> NDArray[np.bool_]:
        """(m, m) which entries are above a threshold, or (`ties`) equal to it; those near it decided canonically."""
        flat = self.products.reshape(-1)
        error = self.error_at(threshold - self.shift)
        candidates = np.flatnonzero(flat > below(threshold - self.shift, error))
        rows, cols = np.divmod(candidates, len(self.cols))
        values = flat[candidates].astype(np.float64) + self.shift
        values = settle(self.pair, self.rows[rows], self.cols[cols], values, threshold, error)
        above = np.zeros(flat.shape, np.bool_)
        above[candidates[values >= threshold if ties else values > threshold]] = True
        return above.reshape(self.products.shape)

    def interval(self, threshold: float) -> tuple[float, float]:
        """95 % interval for the share of all N² entries at or below the threshold.

        Entries of one row, or of one column, depend on each other (a row near everything is above the threshold
        everywhere), so the variance is the jackknife's over rows plus that over columns, with the correction for
        drawing without replacement; on the logarithm of the tail, which keeps it inside (0, 1).
        """
        above = self._above(threshold)
        tail = float(above.mean())
        if self.whole:
            return 1.0 - tail, 1.0 - tail
        size = len(self.rows)
        spread = above.mean(axis=1, dtype=np.float64).var(ddof=1) + above.mean(axis=0, dtype=np.float64).var(ddof=1)
        deviation = sqrt(spread / size * (1.0 - size / self.pair.rows))
        least = 1.0 / self.products.size
        factor = exp(NORMAL_975 * deviation / max(tail, least))
        return 1.0 - min(1.0, max(tail, least) * factor), 1.0 - tail / factor

    def estimate(self, quantile: float, method: QuantileMethod) -> QuantileEstimate:
        """The threshold at q with its interval."""
        threshold = self.threshold(quantile)
        low, high = self.interval(threshold)
        return QuantileEstimate(method, threshold, quantile, low, high, 0 if self.whole else len(self.rows))


def draw_sample(pair: PairedRows, quantile: float, seed: int, *, most: int | None = None) -> Sample:
    """Seeded rows and columns and their products, enough of them for the quantile asked.

    The products are float32's, or float64's where many lie within rounding of the quantile.
    """
    from threadpoolctl import threadpool_limits

    wanted = ceil(sqrt(EXCEEDANCES_WANTED / max(1.0 - quantile, 1e-12)))
    size = min(pair.rows, max(LEAST_SAMPLE_ROWS, min(most or MOST_SAMPLE_ROWS, wanted)))
    generator = np.random.default_rng([seed, 0x9C8])
    rows = np.sort(generator.choice(pair.rows, size, replace=False))
    cols = np.sort(generator.choice(pair.rows, size, replace=False))
    # BLAS follows affinity and OMP_NUM_THREADS by itself, but no cgroup's quota.
    with threadpool_limits(limits=available_cpus(), user_api="blas"):
        sample = Sample(pair, rows, cols, pair.x[rows] @ pair.y[cols].T, float32_error(pair.dim))
        guess = _rough_quantile(sample.products, quantile)
        if _share_within(sample.products, guess, sample.error) <= LARGE_SHARE:
            return sample
        sample = _in_double(sample, guess)
    if size > LEAST_SAMPLE_ROWS and _half_equal(sample, quantile):
        return draw_sample(pair, quantile, seed, most=LEAST_SAMPLE_ROWS)
    return sample


def _half_equal(sample: Sample, quantile: float) -> bool:
    """Whether the value at the quantile makes up half of all entries, so that few rows find it."""
    value = _rough_quantile(sample.products, quantile)
    return _share_within(sample.products, value, sample.error_at(value)) > 0.5


def _thinned(products: NDArray[np.float32]) -> NDArray[np.float32]:
    flat = products.reshape(-1)
    return flat[:: max(1, flat.size // (1 << 18))]


def _rough_quantile(products: NDArray[np.float32], quantile: float) -> float:
    thin = _thinned(products)
    return float(of_rank(thin, max(1, round((1.0 - quantile) * thin.size))))


def _share_within(products: NDArray[np.float32], value: float, distance: float) -> float:
    return float((np.abs(_thinned(products).astype(np.float64) - value) <= distance).mean())


def _in_double(sample: Sample, guess: float) -> Sample:
    """The sample with its products made in float64, in place: their distances from a guess at the quantile."""
    pair, right = sample.pair, sample.pair.y[sample.cols].astype(np.float64).T
    shift = guess or float(np.finfo(np.float32).tiny)
    for start in range(0, len(sample.rows), STRIP_ROWS):
        part = slice(start, start + STRIP_ROWS)
        sample.products[part] = pair.x[sample.rows[part]].astype(np.float64) @ right - shift
    return replace(sample, error=double_error(pair.dim) + FLOAT64_UNIT_ROUNDOFF, shift=shift)
