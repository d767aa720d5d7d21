"""The quantile from passes over all N² products: the median of chunks, as in GCBS, and the exact one."""

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.backend import Backend, below, float32_error
from gcbs_cli.products.canonical_values import of_rank, order_statistic, settle
from gcbs_cli.products.quantile_estimate import QuantileEstimate, QuantileMethod
from gcbs_cli.products.quantile_sample import Sample
from gcbs_cli.products.tiles import Progress, Tile, cut, run_tiles, tiles_for
from gcbs_cli.system.errors import BadInput

CHUNK_ROWS = 1024
"""Rows a chunk of the `chunks` estimator; fixed, so that the block size of the pass does not change the threshold."""
ENTRIES_HELD = 1 << 26
"""The exact estimator narrows its bracket until at most so many entries lie inside."""
HISTOGRAM_BINS = 4096


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


def median_of_chunks(
    pair: PairedRows, quantile: float, sample: Sample, backend: Backend, progress: Progress | None
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


def _chunk_quantile(pair: PairedRows, start: int, tail: _Tail, quantile: float, floor: float, error: float) -> float:
    height = min(CHUNK_ROWS, pair.rows - start)
    size = height * pair.rows
    rank = size - ceil(round(quantile * size, 6)) + 1
    # Ranks count from above: the entry of this rank and all that rounding could exchange it with must be in the tail.
    if np.count_nonzero(tail.values > np.float32(floor + 3.0 * error)) < rank:
        return _full_chunk_quantile(pair, start, height, rank)
    return order_statistic(pair, tail.rows, tail.cols, tail.values, rank, error)


def _full_chunk_quantile(pair: PairedRows, start: int, height: int, rank: int) -> float:
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


def exact_quantile(
    pair: PairedRows, quantile: float, sample: Sample, backend: Backend, progress: Progress | None
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
    pair: PairedRows, bracket: _Bracket, backend: Backend, progress: Progress | None
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
