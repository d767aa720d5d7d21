"""Find t, the number above which entries of X Yᵀ make an edge: given, or a quantile of all N² entries."""

from dataclasses import dataclass

import numpy as np

from gcbs_cli.data.grid import LARGEST_SUM, Grid
from gcbs_cli.products.operations import EVERYTHING, Backend, EntryLimit, Limits, Loaded, Progress, Tile
from gcbs_cli.products.sample import Sample, draw_sample, of_rank, rank_of
from gcbs_cli.settings.plan import ThresholdSettings
from gcbs_cli.system.arrays import Int32s
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
    grid: Grid,
    graph: ThresholdSettings,
    seed: int,
    backend: Backend,
    progress: Progress | None = None,
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
    if method == "sample" or (method == "exact" and sample.whole):
        number = sample.number(quantile)
        interval, drawn = sample.interval(number), 0 if sample.whole else len(sample.rows)
    else:
        loaded, height, tails = backend.load(grid.x, grid.y), chunk_rows if method == "chunks" else count, []
        for top in range(0, count, height):
            rows = slice(top, min(top + height, count))
            tails.append(_quantile(grid, loaded, rows, quantile, sample, backend, progress))
        number, above = sorted(tails)[(len(tails) - 1) // 2]
        achieved = 1.0 - above / count**2
        interval = (achieved, achieved) if method == "exact" else sample.interval(number)
    return Threshold(number, grid.similarity(number), grid.scale, quantile, interval, drawn)


def _quantile(
    grid: Grid,
    loaded: Loaded,
    rows: slice,
    quantile: float,
    sample: Sample,
    backend: Backend,
    progress: Progress | None,
) -> tuple[int, int]:
    """The quantile of the entries of some rows, and how many of them are above it."""
    room = EntryLimit(available_memory() // 8, "use a higher --quantile, or --quantile-method sample")
    count, height, share = len(grid.y), rows.stop - rows.start, 1.0 - quantile
    rank, tail = rank_of(quantile, height * count), np.empty(0, np.int32)
    tiles = [
        Tile(slice(tile.rows.start + rows.start, tile.rows.stop + rows.start), tile.cols)
        for tile in backend.tiles(height, count)
    ]

    def numbers_of(tile: Tile) -> Int32s:
        (found,) = backend.scan(loaded, tile, [limits])
        room.add(len(found))
        return found.values + grid.x_offsets[found.rows] + grid.y_offsets[found.cols]

    def tell(done: int, _: int) -> None:
        if progress is not None:
            progress(rows.start * count + done, len(grid.x) * count)

    while len(tail) < rank:
        share *= WIDER_TAIL
        floor = sample.number(1.0 - share) if share < 1.0 else EVERYTHING
        limits = Limits(np.int32(floor) - grid.x_offsets, -grid.y_offsets)
        tail = np.concatenate([numbers for _, numbers in backend.run(tiles, numbers_of, tell)])
    number = of_rank(tail, rank)
    return int(number), int(np.count_nonzero(tail > number))
