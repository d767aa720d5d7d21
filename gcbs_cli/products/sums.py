"""One pass of float32 products to what losses need of all keys: log sums, with and without suspected pairs, and the
hardest negatives.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.products.operations import Backend, Limits, Product
from gcbs_cli.products.suspects import SuspectPairs, group_numbers
from gcbs_cli.products.tiles import Progress, Tile
from gcbs_cli.system.arrays import grouped
from gcbs_cli.system.compiled import compiled


@dataclass(frozen=True)
class SideSums:
    """What the rows of one side see of all keys."""

    log_sums: NDArray[np.float64]
    """(T, N) log Σ exp(s / temperature) over all keys."""
    masked: NDArray[np.float64]
    """(T, N) the same without suspected pairs."""
    hardest: NDArray[np.float32]
    """(N, K) the largest similarities to keys but the row's own positive, falling, −inf where there are fewer."""
    hardest_unsuspected: NDArray[np.float32]
    """(N,) the largest that is no suspected pair."""


def loss_sums(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    temperatures: Sequence[float],
    backend: Backend,
    *,
    removed: SuspectPairs | None = None,
    hardest: int = 0,
    columns: bool = True,
    tile_rows: int | None = None,
    progress: Progress | None = None,
) -> tuple[SideSums, SideSums]:
    """The sums of the rows of x (N, d) over the keys y (M, d), and of the rows of y over the keys x.

    Products are float32, sums over tiles float64. Where x is y, no row is a key of its own, and both sums are the same.
    `removed`: the suspected pairs; `hardest`: K, for which row i of x and of y must be a pair; `columns`: whether the
    sums of y are wanted, without which those of x stand in their place. Memory: the sums, K numbers a row, and the
    scratch of the tiles.
    """
    sides = (x, y) if columns and x is not y else (x,)
    sums = [_Sums(len(temperatures), len(side), hardest) for side in sides]
    work = _TileWork(x, y, temperatures, backend, removed or SuspectPairs.none(), sums)
    tiles = _no_two_in_line(backend.tiles(len(x), len(y), tile_rows))
    for tile, ends in backend.run(tiles, work, progress):
        for side, places, end in zip(sums, (tile.rows, tile.cols), ends, strict=False):
            side.add(places, end)
    found = [side.finished() for side in sums]
    return found[0], found[-1]


def _no_two_in_line(tiles: list[Tile]) -> list[Tile]:
    """The tiles by diagonals: those under way at one time share neither rows nor columns.

    So a tile finds the limits that all tiles before it in its rows and columns leave.
    """
    high = len({tile.rows.start for tile in tiles})
    wide = len(tiles) // high
    return [tiles[row * wide + (row + shift) % wide] for shift in range(wide) for row in range(high)]


@dataclass(frozen=True)
class _TileSums:
    """Of a tile's n rows, or columns."""

    log_sums: NDArray[np.float64]
    """(T, n)"""
    masked: NDArray[np.float64]
    """(T, n)"""
    largest: NDArray[np.float32]
    """(n,) the largest unsuspected."""
    indices: NDArray[np.int32]
    """(c,) the row or column, in the matrix, of what may be among the hardest there."""
    values: NDArray[np.float32]
    """(c,) that similarity."""


class _Sums:
    """What has been summed so far of one side."""

    def __init__(self, temperatures: int, rows: int, hardest: int) -> None:
        self._log_sums, self._masked = np.full((2, temperatures, rows), -np.inf)
        self._unsuspected = np.full(rows, -np.inf, np.float32)
        self.heaps = np.full((rows, hardest), -np.inf, np.float32)
        self.limits = np.full(rows, -np.inf, np.float32)
        """(N,) below each row's K hardest of all keys."""

    def add(self, places: slice, part: _TileSums) -> None:
        """Take a tile's sums, those of the rows at these places."""
        for total, sums in ((self._log_sums, part.log_sums), (self._masked, part.masked)):
            np.logaddexp(total[:, places], sums, out=total[:, places])
        np.maximum(self._unsuspected[places], part.largest, out=self._unsuspected[places])
        if self.heaps.size:
            _push(self.heaps, part.indices, part.values)
            np.maximum(self.limits[places], self.heaps[places, 0], out=self.limits[places])

    def finished(self) -> SideSums:
        """All of it; nothing can be added any more."""
        self.heaps.sort(axis=1)
        return SideSums(self._log_sums, self._masked, np.ascontiguousarray(self.heaps[:, ::-1]), self._unsuspected)


class _TileWork:
    """What is done with a tile: its sums by row and, unless both sides are one, by column."""

    def __init__(
        self,
        x: NDArray[np.float32],
        y: NDArray[np.float32],
        temperatures: Sequence[float],
        backend: Backend,
        removed: SuspectPairs,
        sums: list[_Sums],
    ) -> None:
        self._scales = [1.0 / temperature for temperature in temperatures]
        self._backend, self._sums, self._one_side = backend, sums, x is y
        self._loaded = backend.load(x, y)
        rows, cols = removed.both_ways()
        places, self._starts = grouped(rows, len(x))
        self._rows, self._cols = rows[places], cols[places]
        self._groups = None if removed.groups is None else group_numbers(removed.groups)
        zeros = [np.zeros(len(side), np.float32) for side in (x, y)]
        self._limits = [Limits(sums[0].limits, zeros[1]), Limits(zeros[0], sums[-1].limits)]

    def __call__(self, tile: Tile) -> list[_TileSums]:
        """The sums by row, and by column."""
        product = self._backend.product(self._loaded, tile)
        shared = np.arange(max(tile.rows.start, tile.cols.start), min(tile.rows.stop, tile.cols.stop))
        own = shared - tile.rows.start, shared - tile.cols.start
        positives = -np.inf if self._one_side else product[own]
        product[own] = positives
        plain = masked = self._log_sums(product)
        product[own] = -np.inf
        hard = [self._candidates(product, tile, end) for end in range(len(self._sums))]
        removed = self._remove_suspects(product, tile)
        largest = [self._backend.of_rank(along, 1) for along in (product, product.T)[: len(self._sums)]]
        if removed:
            product[own] = positives
            masked = self._log_sums(product)
        return [_TileSums(plain[end], masked[end], largest[end], *found) for end, found in enumerate(hard)]

    def _log_sums(self, product: Product) -> list[NDArray[np.float64]]:
        """(T, n) by row, and by column."""
        found = [self._backend.log_sums(product, scale, columns=len(self._sums) == 2) for scale in self._scales]
        return [np.stack(parts) for parts in zip(*found, strict=True)]

    def _candidates(self, product: Product, tile: Tile, end: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Row (end 0) or column (end 1), and value, of what may be among the hardest there."""
        limits, count = self._sums[end].limits[(tile.rows, tile.cols)[end]], self._sums[end].heaps.shape[1]
        if count == 0:
            return np.empty(0, np.int32), np.empty(0, np.float32)
        along = product.T if end else product
        if along.shape[1] >= count and np.isneginf(limits).any():
            np.maximum(limits, np.nextafter(self._backend.of_rank(along, count), np.float32(-np.inf)), out=limits)
        found = self._backend.above(product, tile, self._limits[end])
        return found.cols if end else found.rows, found.values

    def _remove_suspects(self, product: Product, tile: Tile) -> bool:
        """Put −inf at the suspected entries of a tile; whether there may be any."""
        some = slice(self._starts[tile.rows.start], self._starts[tile.rows.stop])
        rows, cols = (ends[some].astype(np.int64) for ends in (self._rows, self._cols))
        inside = (cols >= tile.cols.start) & (cols < tile.cols.stop)
        product[rows[inside] - tile.rows.start, cols[inside] - tile.cols.start] = -np.inf
        if self._groups is not None:
            product[self._groups[tile.rows, None] == self._groups[tile.cols]] = -np.inf
        return bool(inside.any()) or self._groups is not None


@compiled
def _push(heaps: NDArray[np.float32], indices: NDArray[np.int32], values: NDArray[np.float32]) -> None:
    """Let each value into the heap of its index where it exceeds the least one there, which goes.

    The root is written once, with its final value, so that other threads may read it meanwhile.
    """
    count = heaps.shape[1]
    for number in range(len(indices)):
        heap, value = heaps[indices[number]], values[number]
        if value <= heap[0]:
            continue
        place, child = 0, 1
        while child < count:
            if child + 1 < count and heap[child + 1] < heap[child]:
                child += 1
            if heap[child] >= value:
                break
            heap[place] = heap[child]
            place, child = child, 2 * child + 1
        heap[place] = value
