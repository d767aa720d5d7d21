"""Passes of float32 products to what losses need of all keys: log sums, with and without suspected pairs, and the
hardest negatives.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.operations import Backend, Loaded, Product, ProgressCallback, Tile
from gcbs_cli.products.suspects import Suspicion
from gcbs_cli.products.top_lists import keep_largest
from gcbs_cli.system.arrays import Float32s, Floats, Int32s, Ints

Sides = tuple[int, int]
"""The side of the rows, and that of the keys: 0 for x, 1 for y."""
ACROSS: list[Sides] = [(0, 1), (1, 0)]
WITHIN: list[Sides] = [(0, 0), (1, 1)]


def loss_sums(x: Float32s, y: Float32s, temperatures: Sequence[float], backend: Backend) -> tuple[Floats, Floats]:
    """(T, N) log Σ exp(s / temperature) of the rows of x over the keys y, and (T, M) of the rows of y over the keys x.

    x: (N, d), y: (M, d), products of at most 1. Products are float32, sums over tiles float64. Where x is y, no row is
    a key of its own.
    """
    sums = tuple(np.full((len(temperatures), len(side)), -np.inf) for side in (x, y))
    loaded = backend.load(x, y)

    def tile_sums(tile: Tile) -> list[tuple[Floats, Floats]]:
        product = backend.product(loaded, tile)
        if x is y:
            product[_own_places(tile)] = -np.inf
        return [backend.log_sums(product, 1.0 / temperature) for temperature in temperatures]

    for tile, by_temperature in backend.run(backend.tiles(len(x), len(y)), tile_sums):
        for number, ends in enumerate(by_temperature):
            for total, places, part in zip(sums, tile, ends, strict=True):
                np.logaddexp(total[number, places], part[0], out=total[number, places])
    return sums[0], sums[1]


@dataclass(frozen=True)
class KeySums:
    """What the rows of one side see of the keys of one side, but for row i of key i."""

    log_sums: Floats
    """(2, T, N) log Σ exp(s / temperature), and the same without suspected pairs."""
    hardest: Float32s
    """(N, K) the largest similarities, falling, −inf where there are fewer."""
    hardest_unsuspected: Float32s
    """(N,) the largest that is no suspected pair's, where it was asked for."""


def pair_sums(
    pairs: PairedRows,
    temperatures: Sequence[float],
    backend: Backend,
    suspicion: Suspicion,
    *,
    hardest: int = 0,
    unsuspected: bool = False,
    views: bool = False,
    progress: ProgressCallback | None = None,
) -> dict[Sides, KeySums]:
    """The sums of x over y and of y over x; with `views` also those of each side over itself.

    hardest: K; unsuspected: whether the largest similarity that is not suspected is looked for.
    An entry is suspected by s_ij and by s_ji, so each tile is computed with its mirror image, once for both.
    Memory: the sums, K numbers a row, and the scratch of the tiles.
    """
    shape = (2, len(temperatures), pairs.rows)
    sums = {
        sides: KeySums(
            np.full(shape, -np.inf),
            np.full((pairs.rows, hardest), -np.inf, np.float32),  # a heap a row while keys are added
            np.full(pairs.rows, -np.inf, np.float32),
        )
        for sides in (ACROSS + WITHIN if views else ACROSS)
    }
    scales = [1.0 / temperature for temperature in temperatures]
    work = _Pass(sums, backend, backend.load(pairs.x, pairs.y), suspicion, scales, unsuspected)
    for _, parts in backend.run(_upper_tiles(backend, pairs.rows), work.of_tile, progress):
        for part in parts:
            total, places = sums[part.sides], part.places
            np.logaddexp(total.log_sums[..., places], part.log_sums, out=total.log_sums[..., places])
            np.maximum(total.hardest_unsuspected[places], part.largest, out=total.hardest_unsuspected[places])
            keep_largest(total.hardest, *part.candidates)
    for total in sums.values():
        total.hardest.sort(axis=1)
        total.hardest[:] = total.hardest[:, ::-1]
    return sums


def _own_places(tile: Tile) -> tuple[Ints, Ints]:
    """The places of the entries (i, i) in a tile."""
    shared = np.arange(max(tile.rows.start, tile.cols.start), min(tile.rows.stop, tile.cols.stop))
    return shared - tile.rows.start, shared - tile.cols.start


def _upper_tiles(backend: Backend, count: int) -> list[Tile]:
    """Squares along the diagonal and tiles right of them, by their distance from it.

    So tiles under way at one time share few rows: each finds the limits that those before it leave. They have half of
    the usual rows, for a tile and its mirror image are in memory at once.
    """
    height, width = backend.tile_shape
    height = min(backend.tile_rows or max(1, height // 2), width)
    tiles = []
    for top in range(0, count, height):
        rows = slice(top, min(top + height, count))
        tiles.append(Tile(rows, rows))
        tiles += [Tile(rows, slice(left, min(left + width, count))) for left in range(rows.stop, count, width)]
    return sorted(tiles, key=lambda tile: tile.cols.start - tile.rows.start)


class _TileSums(NamedTuple):
    """What a tile adds to the n rows at `places` of the sums of `sides`."""

    sides: Sides
    places: slice
    log_sums: Floats
    largest: Float32s | float
    candidates: tuple[Int32s, Float32s]
    """Rows and values of entries that may be among the hardest."""


@dataclass(frozen=True)
class _Pass:
    """What is done with the tiles."""

    sums: dict[Sides, KeySums]
    backend: Backend
    loaded: Loaded
    suspicion: Suspicion
    scales: list[float]
    unsuspected: bool

    def of_tile(self, tile: Tile) -> list[_TileSums]:
        """The sums of a tile by row and by column, and those of its mirror image."""
        there, back = (self.backend.product(self.loaded, tile, sides) for sides in ACROSS)
        mask = self.suspicion.mask(there, back, tile.rows, tile.cols, self.backend.array)
        on_diagonal = tile.cols.start <= tile.rows.start
        # A square on the diagonal holds both (i, j) and (j, i): its mirror image says nothing more.
        products = {ACROSS[0]: there} if on_diagonal else {ACROSS[0]: there, ACROSS[1]: back}
        for sides in WITHIN:
            if sides in self.sums:
                products[sides] = self.backend.product(self.loaded, tile, sides)
        parts = []
        for sides, product in products.items():
            if on_diagonal:
                product[_own_places(tile)] = -np.inf
            by_row = sides, tile.rows
            by_col = sides[::-1], tile.cols
            ends = [by_row] if on_diagonal and sides in WITHIN else [by_row, by_col]
            parts += self._sums_of(product, mask, tile, ends)
        return parts

    def _sums_of(self, product: Product, mask: Product, tile: Tile, ends: list[tuple[Sides, slice]]) -> list[_TileSums]:
        """The sums of a product, by row, and by column where there is a second end."""
        log_sums = [self.backend.log_sums(product, scale, mask) for scale in self.scales]
        candidates = [self._candidates(product, tile, end, sides) for end, (sides, _) in enumerate(ends)]
        parts = []
        for end, (sides, places) in enumerate(ends):
            largest: Float32s | float = -np.inf
            if self.unsuspected:
                product[mask] = -np.inf
                largest = self.backend.of_rank((product, product.T)[end], 1)
            by_temperature = np.stack([each[end] for each in log_sums], axis=1)
            parts.append(_TileSums(sides, places, by_temperature, largest, candidates[end]))
        return parts

    def _candidates(self, product: Product, tile: Tile, end: int, sides: Sides) -> tuple[Int32s, Float32s]:
        """What may be among the hardest of its row (end 0) or column (end 1)."""
        heaps = self.sums[sides].hardest
        count = heaps.shape[1]
        if count == 0:
            return np.empty(0, np.int32), np.empty(0, np.float32)
        # The hardest of each row are above the roots. Other threads raise these: with a lower limit more are listed.
        limits = heaps[tile[end], 0].copy()
        along = product.T if end else product
        if along.shape[1] >= count and np.isneginf(limits).any():
            least = self.backend.of_rank(along, count)
            np.maximum(limits, np.nextafter(least, np.float32(-np.inf)), out=limits)
        limits = self.backend.array(limits)
        mask = product > (limits if end else limits[:, None])
        entries = self.backend.listed(product, tile, mask)
        return entries.cols if end else entries.rows, entries.values
