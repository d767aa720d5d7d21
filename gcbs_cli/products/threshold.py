"""Find t, the number above which entries of X Yᵀ make an edge: given, or a quantile of all N² entries."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.grid import LARGEST_SUM, Grid
from gcbs_cli.products.operations import EVERYTHING, Backend, Limits
from gcbs_cli.products.sample import Sample, draw_sample, rank_of
from gcbs_cli.products.tiles import Progress, Tile, cut, run_tiles
from gcbs_cli.settings.plan import GraphSettings

CHUNK_ROWS = 1024
"""Rows of a chunk of the `chunks` estimator, as in GCBS; no size of a tile changes it."""
WIDER_TAIL = 4.0
"""A quantile is looked for among so many times the entries that should be above it, and again, where these are few."""
VALUES_HELD = 1 << 22


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
    grid: Grid, graph: GraphSettings, seed: int, backend: Backend, progress: Progress | None = None
) -> Threshold:
    """t by the settings. Of the estimators `sample` reads a seeded sample, `chunks` and `exact` every entry."""
    quantile = graph.requested_quantile(len(grid.x))
    if quantile is None:
        given = float(graph.threshold or 0.0)
        return Threshold(max(-LARGEST_SUM, min(LARGEST_SUM, grid.number(given))), given, grid.scale)
    return estimate(grid, quantile, graph.quantile_method, seed, backend, progress)


def estimate(
    grid: Grid,
    quantile: float,
    method: str,
    seed: int,
    backend: Backend,
    progress: Progress | None = None,
    *,
    sample: Sample | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> Threshold:
    """t at the quantile q. `chunks`: GCBS, algorithm 1, the (lower) median over chunks of rows of each one's quantile.

    `sample`: by default drawn by the seed.
    """
    sample = sample or draw_sample(grid, quantile, seed)
    if method == "sample" or (method == "exact" and sample.whole):
        number = sample.number(quantile)
        drawn = 0 if sample.whole else len(sample.rows)
        return Threshold(number, grid.similarity(number), grid.scale, quantile, sample.interval(number), drawn)
    height = len(grid.x) if method == "exact" else chunk_rows
    tallies = _tails(grid, quantile, height, sample, backend, progress)
    numbers = sorted(tally.number(rank) for tally, rank in tallies)
    number = numbers[(len(numbers) - 1) // 2]
    interval = sample.interval(number)
    if method == "exact":
        achieved = 1.0 - tallies[0][0].above(number) / len(grid.x) ** 2
        interval = achieved, achieved
    return Threshold(number, grid.similarity(number), grid.scale, quantile, interval)


def _tails(
    grid: Grid, quantile: float, height: int, sample: Sample, backend: Backend, progress: Progress | None
) -> "list[tuple[_Tally, int]]":
    """For each `height` rows the entries down to their quantile or further, and its rank among them."""
    count = len(grid.x)
    loaded = backend.load(grid.x, grid.y)
    ranks = {top: rank_of(quantile, min(height, count - top) * count) for top in range(0, count, height)}
    tallies: dict[int, _Tally] = {}
    share = 1.0 - quantile
    while len(tallies) < len(ranks):
        share *= WIDER_TAIL
        floor = sample.number(1.0 - share) if share < 1.0 else EVERYTHING
        limits = Limits(np.int32(floor) - grid.x_offsets, -grid.y_offsets)

        def values_of(tile: Tile, limits: Limits = limits) -> NDArray[np.int32]:
            (found,) = backend.scan(loaded, tile, [limits])
            return found.values + grid.x_offsets[found.rows] + grid.y_offsets[found.cols]

        missing = [top for top in ranks if top not in tallies]
        found = {top: _Tally() for top in missing}
        tiles = [
            Tile(slice(tile.rows.start + top, tile.rows.stop + top), tile.cols)
            for top in missing
            for tile in cut(min(height, count - top), count, *backend.tile_shape)
        ]
        for tile, values in run_tiles(backend, tiles, values_of, progress):
            found[tile.rows.start // height * height].add(values)
        tallies.update({top: tally for top, tally in found.items() if tally.above(EVERYTHING) >= ranks[top]})
    return [(tallies[top], rank) for top, rank in ranks.items()]


class _Tally:
    """How often each of many numbers occurs."""

    def __init__(self) -> None:
        self._values, self._counts = np.empty(0, np.int32), np.empty(0, np.int64)
        self._waiting: list[NDArray[np.int32]] = []
        self._held = 0

    def add(self, values: NDArray[np.int32]) -> None:
        self._waiting.append(values)
        self._held += len(values)
        if self._held > VALUES_HELD:
            self._fold()

    def _fold(self) -> None:
        values, counts = np.unique(np.concatenate([*self._waiting, np.empty(0, np.int32)]), return_counts=True)
        both = np.concatenate([self._values, values])
        self._values, places = np.unique(both, return_inverse=True)
        weights = np.concatenate([self._counts, counts])
        self._counts = np.bincount(places.reshape(-1), weights, len(self._values)).astype(np.int64)
        self._waiting, self._held = [], 0

    def above(self, number: int) -> int:
        """How many of the numbers are above this one."""
        self._fold()
        return int(self._counts[self._values > number].sum())

    def number(self, rank: int) -> int:
        """The number of this rank, 1 for the largest."""
        self._fold()
        from_above = np.cumsum(self._counts[::-1])
        return int(self._values[len(self._values) - 1 - int(np.searchsorted(from_above, rank))])
