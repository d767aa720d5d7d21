"""Find t, the number above which entries of X Yᵀ make an edge: given, or a quantile of all N² entries."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.grid import LARGEST_SUM, Grid
from gcbs_cli.products.operations import EVERYTHING, Backend, EntryLimit, Limits
from gcbs_cli.products.sample import Sample, draw_sample, of_rank, rank_of
from gcbs_cli.products.tiles import Progress, Tile
from gcbs_cli.settings.plan import ThresholdSettings
from gcbs_cli.system.limits import available_memory

CHUNK_ROWS = 1024
"""Rows of a chunk of the `chunks` estimator, as in GCBS; no size of a tile changes it."""
WIDER_TAIL = 4.0
"""A quantile is looked for among so many times the entries that should be above it, and again, where these are few."""


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
    grid: Grid, settings: ThresholdSettings, seed: int, backend: Backend, progress: Progress | None = None
) -> Threshold:
    """t by the settings. Of the estimators `sample` reads a seeded sample, `chunks` and `exact` every entry."""
    quantile = settings.requested_quantile(len(grid.x))
    if quantile is None:
        given = float(settings.threshold or 0.0)
        return Threshold(max(-LARGEST_SUM, min(LARGEST_SUM, grid.number(given))), given, grid.scale)
    return estimate(grid, quantile, settings.quantile_method, seed, backend, progress)


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
    tails = _tails(grid, quantile, height, sample, backend, progress)
    numbers = sorted(int(of_rank(tail, rank)) for tail, rank in tails)
    number = numbers[(len(numbers) - 1) // 2]
    interval = sample.interval(number)
    if method == "exact":
        achieved = 1.0 - int(np.count_nonzero(tails[0][0] > number)) / len(grid.x) ** 2
        interval = achieved, achieved
    return Threshold(number, grid.similarity(number), grid.scale, quantile, interval)


def _tails(
    grid: Grid, quantile: float, height: int, sample: Sample, backend: Backend, progress: Progress | None
) -> list[tuple[NDArray[np.int32], int]]:
    """For each `height` rows the numbers down to their quantile or further, and its rank among them.

    Raises BadInput where the memory does not hold these numbers: 16 bytes for each above the quantile.
    """
    count, loaded = len(grid.x), backend.load(grid.x, grid.y)
    room = EntryLimit(available_memory() // 8, "use a higher --quantile, or --quantile-method sample")
    ranks = {top: rank_of(quantile, min(height, count - top) * count) for top in range(0, count, height)}
    tails: dict[int, NDArray[np.int32]] = {}
    share = 1.0 - quantile
    while missing := [top for top in ranks if top not in tails]:
        share *= WIDER_TAIL
        floor = sample.number(1.0 - share) if share < 1.0 else EVERYTHING
        limits = Limits(np.int32(floor) - grid.x_offsets, -grid.y_offsets)

        def numbers_of(tile: Tile, limits: Limits = limits) -> NDArray[np.int32]:
            (found,) = backend.scan(loaded, tile, [limits])
            return found.values + grid.x_offsets[found.rows] + grid.y_offsets[found.cols]

        found: dict[int, list[NDArray[np.int32]]] = {top: [] for top in missing}
        tiles = [
            Tile(slice(tile.rows.start + top, tile.rows.stop + top), tile.cols)
            for top in missing
            for tile in backend.tiles(min(height, count - top), count)
        ]
        for tile, numbers in backend.run(tiles, numbers_of, progress):
            room.add(len(numbers))
            found[tile.rows.start // height * height].append(numbers)
        joined = {top: np.concatenate(parts) for top, parts in found.items()}
        tails.update({top: tail for top, tail in joined.items() if len(tail) >= ranks[top]})
    return [(tails[top], rank) for top, rank in ranks.items()]
