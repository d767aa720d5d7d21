"""Estimate t, the q-quantile of all N² entries of X Yᵀ, and say how sure the estimate is."""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, exp, sqrt

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.errors import BadInput
from gcbs_cli.similarity.backend import Backend, available_cpus, below, float32_error
from gcbs_cli.similarity.canonical_values import (
    FLOAT64_UNIT_ROUNDOFF,
    UnitPair,
    double_error,
    of_rank,
    order_statistic,
    settle,
)
from gcbs_cli.similarity.double_search import LARGE_SHARE, STRIP_ROWS
from gcbs_cli.similarity.numpy_backend import NumpyBackend
from gcbs_cli.similarity.tiles import Progress, Tile, cut, run_tiles, tiles_for

LEAST_SAMPLE_ROWS = 2048
MOST_SAMPLE_ROWS = 16384
CHECK_SAMPLE_ROWS = 1024
"""A threshold that is at hand is checked with so many rows and columns: a quarter of the least sample."""
EXCEEDANCES_WANTED = 1000
"""The sample grows until so many of its entries are expected above the quantile."""
SHIFTED_ROUNDING = 2.0**-22
"""Of a float64 number rounded to float32, relative to it, with room for the comparison's own rounding."""
NORMAL_975 = 1.959964
CHUNK_ROWS = 1024
"""Rows a chunk of the `chunks` estimator; fixed, so that the block size of the pass does not change the threshold."""
ENTRIES_HELD = 1 << 26
"""The exact estimator narrows its bracket until at most so many entries lie inside."""
HISTOGRAM_BINS = 4096


class QuantileMethod(StrEnum):
    """How the threshold is found (DESIGN, definitions)."""

    SAMPLE = "sample"
    CHUNKS = "chunks"
    EXACT = "exact"


@dataclass(frozen=True)
class QuantileEstimate:
    """A threshold and what is known of it.

    `threshold`: t; `requested`: q; `low`, `high`: 95 % interval for the achieved q, the share of entries at or below t;
    `sample_rows`: rows (and as many columns) that were drawn, 0 where all entries were read;
    `confirmed`: t was an earlier plan's, and the sample only confirmed it.
    """

    method: QuantileMethod
    threshold: float
    requested: float
    low: float
    high: float
    sample_rows: int
    confirmed: bool = False


def check_quantile(quantile: float) -> None:
    """Raises BadInput unless 0 < q < 1."""
    if not 0.0 < quantile < 1.0:
        raise BadInput(f"--quantile {quantile}: expected a number between 0 and 1, such as 0.999")


def estimate_quantile(
    pair: UnitPair,
    quantile: float,
    *,
    method: QuantileMethod = QuantileMethod.SAMPLE,
    seed: int = 0,
    backend: Backend | None = None,
    progress: Progress | None = None,
) -> QuantileEstimate:
    """The threshold at quantile q, by the method asked for.

    `sample` reads a seeded sample, `chunks` and `exact` every entry, once or more. Raises BadInput unless 0 < q < 1.
    """
    check_quantile(quantile)
    sample = draw_sample(pair, quantile, seed)
    if method is QuantileMethod.SAMPLE or (sample.whole and method is QuantileMethod.EXACT):
        return sample.estimate(quantile, method)
    device = backend or NumpyBackend()
    if method is QuantileMethod.CHUNKS:
        return _median_of_chunks(pair, quantile, sample, device, progress)
    return _exact(pair, quantile, sample, device, progress)


def confirm_threshold(pair: UnitPair, quantile: float, threshold: float, seed: int = 0) -> QuantileEstimate | None:
    """The threshold as an estimate if a small sample does not speak against it: q lies in its interval; else None."""
    check_quantile(quantile)
    sample = draw_sample(pair, quantile, seed, least=CHECK_SAMPLE_ROWS, most=CHECK_SAMPLE_ROWS)
    low, high = sample.interval(threshold)
    if not low <= quantile <= high:
        return None
    rows = 0 if sample.whole else len(sample.rows)
    return QuantileEstimate(QuantileMethod.SAMPLE, threshold, quantile, low, high, rows, confirmed=True)


@dataclass(frozen=True)
class Sample:
    """The products of random rows and random columns, drawn without replacement.

    `rows`, `cols`: (m,) sorted indices; `products`: (m, m) float32, less `shift`, and off by at most `error`; where the
    shift is not 0 they were float64 before, and rounding to float32 adds to the error in proportion to what is left.
    """

    pair: UnitPair
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


def draw_sample(
    pair: UnitPair,
    quantile: float,
    seed: int,
    *,
    least: int | None = None,
    most: int | None = None,
    float32: bool = False,
) -> Sample:
    """Seeded rows and columns and their products, enough of them for the quantile asked.

    The products are float32's (always with `float32`), or float64's where many lie within rounding of the quantile.
    """
    from threadpoolctl import threadpool_limits

    wanted = ceil(sqrt(EXCEEDANCES_WANTED / max(1.0 - quantile, 1e-12)))
    size = min(pair.rows, max(least or LEAST_SAMPLE_ROWS, min(most or MOST_SAMPLE_ROWS, wanted)))
    generator = np.random.default_rng([seed, 0x9C8])
    rows = np.sort(generator.choice(pair.rows, size, replace=False))
    cols = np.sort(generator.choice(pair.rows, size, replace=False))
    # BLAS follows affinity and OMP_NUM_THREADS by itself, but no cgroup's quota.
    with threadpool_limits(limits=available_cpus(), user_api="blas"):
        sample = Sample(pair, rows, cols, pair.x[rows] @ pair.y[cols].T, float32_error(pair.dim))
        guess = _rough_quantile(sample.products, quantile)
        if float32 or _share_within(sample.products, guess, sample.error) <= LARGE_SHARE:
            return sample
        sample = _in_double(sample, guess)
    if size > LEAST_SAMPLE_ROWS and least is None and _half_equal(sample, quantile):
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


@dataclass(frozen=True)
class _Tail:
    """The entries of some rows above a floor, and how many entries these rows have in all."""

    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    values: NDArray[np.float32]


def _tail_of(backend: Backend, product: object, tile: Tile, floor: float) -> _Tail:
    found = backend.above(product, floor)
    return _Tail(found.rows + tile.rows.start, found.cols + tile.cols.start, found.values)


def _merge(parts: list[_Tail]) -> _Tail:
    return _Tail(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.cols for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def _median_of_chunks(
    pair: UnitPair, quantile: float, sample: Sample, backend: Backend, progress: Progress | None
) -> QuantileEstimate:
    """GCBS, algorithm 1: the quantile of each chunk of rows against all columns, then the median over the chunks."""
    x, y = backend.load(pair.x), backend.load(pair.y)
    error = backend.error(pair.dim)
    # Chunks differ from each other: a floor at four times the tail holds nearly every chunk's quantile.
    floor = below(sample.threshold(max(1.0 - 4.0 * (1.0 - quantile), 1e-9)), error)

    def work(tile: Tile) -> _Tail:
        return _tail_of(backend, backend.product(x, y, tile.rows, tile.cols), tile, floor)

    chunks: dict[int, list[_Tail]] = {}
    for tile, tail in run_tiles(backend, cut(pair.rows, pair.rows, CHUNK_ROWS), work, progress):
        chunks.setdefault(tile.rows.start // CHUNK_ROWS * CHUNK_ROWS, []).append(tail)
    thresholds = [
        _chunk_quantile(pair, start, _merge(parts), quantile, floor, error) for start, parts in chunks.items()
    ]
    threshold = float(np.median(thresholds))
    low, high = sample.interval(threshold)
    return QuantileEstimate(QuantileMethod.CHUNKS, threshold, quantile, low, high, 0)


def _chunk_quantile(pair: UnitPair, start: int, tail: _Tail, quantile: float, floor: float, error: float) -> float:
    height = min(CHUNK_ROWS, pair.rows - start)
    size = height * pair.rows
    rank = size - ceil(round(quantile * size, 6)) + 1
    # Ranks count from above: the entry of this rank and all that rounding could exchange it with must be in the tail.
    if np.count_nonzero(tail.values > np.float32(floor + 3.0 * error)) < rank:
        return _full_chunk_quantile(pair, start, height, rank)
    return order_statistic(pair, tail.rows, tail.cols, tail.values, rank, error)


def _full_chunk_quantile(pair: UnitPair, start: int, height: int, rank: int) -> float:
    """The same from all entries of the chunk, where the floor was too high for it."""
    error = float32_error(pair.dim)
    values = (pair.x[start : start + height] @ pair.y.T).reshape(-1)
    candidates = np.flatnonzero(values >= np.float32(of_rank(values, rank) - 3.0 * error))
    rows, cols = np.divmod(candidates, pair.rows)
    return order_statistic(pair, rows + start, cols, values[candidates], rank, error)


@dataclass(frozen=True)
class _Bracket:
    """An interval of values that holds the quantile."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Halfway between its ends."""
        return 0.5 * (self.low + self.high)

    def holds(self, value: float, margin: float) -> bool:
        """Whether the value lies inside with this distance to both ends: its neighbours by rounding are inside too."""
        return self.low + margin <= value <= self.high - margin


def _exact(
    pair: UnitPair, quantile: float, sample: Sample, backend: Backend, progress: Progress | None
) -> QuantileEstimate:
    """Histogram refinement over all N² entries: narrow a bracket until its entries can be held, then order them."""
    size = pair.rows * pair.rows
    rank = size - ceil(round(quantile * size, 6)) + 1
    error = backend.error(pair.dim)
    bracket = _bracket_from(sample, quantile, error)
    while True:
        above, tail, counts = _scan(pair, bracket, backend, progress)
        inside = int(counts.sum())
        if not above < rank <= above + inside:
            bracket = _widened(bracket, error, downwards=rank > above)
        elif tail is None:
            bracket = _bin_of(bracket, counts, rank - above, error)
        elif bracket.holds(guess := of_rank(tail.values, rank - above), 2.0 * error):
            threshold = order_statistic(pair, tail.rows, tail.cols, tail.values, rank - above, error)
            settled = settle(pair, tail.rows, tail.cols, tail.values, threshold, error)
            achieved = 1.0 - (above + int(np.count_nonzero(settled > threshold))) / size
            return QuantileEstimate(QuantileMethod.EXACT, threshold, quantile, achieved, achieved, 0)
        else:
            bracket = _widened(bracket, error, downwards=guess < bracket.middle)


def _bracket_from(sample: Sample, quantile: float, error: float) -> _Bracket:
    """Values between which the quantile lies almost surely: its interval, twice as wide."""
    low, high = sample.interval(sample.threshold(quantile))
    wide_low, wide_high = quantile - 2.0 * (quantile - low), quantile + 2.0 * (high - quantile)
    least, most = 1.0 / sample.products.size, 1.0 - 1.0 / sample.products.size
    return _Bracket(
        sample.threshold(min(max(wide_low, least), most)) - 4.0 * error,
        sample.threshold(min(max(wide_high, least), most)) + 4.0 * error,
    )


def _widened(bracket: _Bracket, error: float, *, downwards: bool) -> _Bracket:
    width = 4.0 * (bracket.high - bracket.low) + 8.0 * error
    if downwards:
        return _Bracket(max(-1.5, bracket.low - width), bracket.low + 8.0 * error)
    return _Bracket(bracket.high - 8.0 * error, min(1.5, bracket.high + width))


def _scan(
    pair: UnitPair, bracket: _Bracket, backend: Backend, progress: Progress | None
) -> tuple[int, _Tail | None, NDArray[np.int64]]:
    """Entries above the bracket, those inside while they can be held (else None), and the inside's histogram."""
    x, y = backend.load(pair.x), backend.load(pair.y)
    edges = np.linspace(bracket.low, bracket.high, HISTOGRAM_BINS + 1)

    def work(tile: Tile) -> tuple[int, _Tail, NDArray[np.int64]]:
        found = _tail_of(backend, backend.product(x, y, tile.rows, tile.cols), tile, bracket.low)
        inside = found.values <= np.float32(bracket.high)
        kept = _Tail(found.rows[inside], found.cols[inside], found.values[inside])
        counts = np.histogram(kept.values, edges)[0]
        counts[-1] += len(kept.values) - counts.sum()
        return len(found.values) - len(kept.values), kept, counts

    above, held, counts = 0, 0, np.zeros(HISTOGRAM_BINS, np.int64)
    parts: list[_Tail] | None = []
    for _, (tile_above, kept, tile_counts) in run_tiles(
        backend, tiles_for(backend, pair.rows, pair.rows), work, progress
    ):
        above, counts, held = above + tile_above, counts + tile_counts, held + len(kept.values)
        if held > ENTRIES_HELD:
            parts = None
        if parts is not None:
            parts.append(kept)
    return above, _merge(parts) if parts is not None else None, counts


def _bin_of(bracket: _Bracket, counts: NDArray[np.int64], rank: int, error: float) -> _Bracket:
    """The bin that holds the rank from above, widened by the products' error."""
    edges = np.linspace(bracket.low, bracket.high, HISTOGRAM_BINS + 1)
    from_above = np.cumsum(counts[::-1])
    place = HISTOGRAM_BINS - 1 - int(np.searchsorted(from_above, rank))
    low, high = edges[place] - 3.0 * error, edges[place + 1] + 3.0 * error
    if high - low >= 0.9 * (bracket.high - bracket.low):
        raise BadInput(
            f"--quantile-method exact: {int(counts.sum()):,} entries are equal to rounding at the quantile "
            f"(value {bracket.low:.6f}), more than can be ordered; use --quantile-method sample"
        )
    return _Bracket(low, high)
