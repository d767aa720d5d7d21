"""One pass of float32 products to what losses need of all keys: log sums, with and without suspected pairs, and the
hardest negatives.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gcbs_cli.products.operations import Backend, Entries, Limits, Product, Progress, Tile
from gcbs_cli.products.suspects import NO_SUSPECTS, SuspectPairs
from gcbs_cli.products.top_lists import keep_largest
from gcbs_cli.system.arrays import Float32s, Floats, group_numbers, grouped


@dataclass(frozen=True)
class SideSums:
    """What the rows of one side see of all keys."""

    log_sums: Floats
    """(T, N) log Σ exp(s / temperature) over all keys."""
    masked: Floats
    """(T, N) the same without suspected pairs."""
    hardest: Float32s
    """(N, K) the largest similarities to keys but the row's own positive, falling, −inf where there are fewer."""
    hardest_unsuspected: Float32s
    """(N,) the largest that is no suspected pair."""


def loss_sums(
    x: Float32s,
    y: Float32s,
    temperatures: Sequence[float],
    backend: Backend,
    *,
    removed: SuspectPairs = NO_SUSPECTS,
    hardest: int = 0,
    progress: Progress | None = None,
) -> tuple[SideSums, SideSums]:
    """The sums of the rows of x (N, d) over the keys y (M, d), and of the rows of y over the keys x.

    Products are float32, sums over tiles float64. Where x is y, no row is a key of its own, and both sums are the same.
    `removed`: the suspected pairs; `hardest`: K, for which row i of x and of y must be a pair. Memory: the sums, K
    numbers a row, and the scratch of the tiles.
    """
    work = _Pass(x, y, temperatures, backend, removed, hardest)
    for tile, ends in backend.run(_no_two_in_line(backend.tiles(len(x), len(y))), work.of_tile, progress):
        work.add(tile, ends)
    for side in work.sides:
        side.hardest.sort(axis=1)
        side.hardest[:] = side.hardest[:, ::-1]
    return work.sides[0], work.sides[-1]


def _nothing(temperatures: Sequence[float], side: Float32s, hardest: int) -> SideSums:
    """The sums over no keys. While keys are added, `hardest` holds a heap a row, the least of it first."""
    log_sums, masked = np.full((2, len(temperatures), len(side)), -np.inf)
    heaps, largest = np.full((len(side), hardest), -np.inf, np.float32), np.full(len(side), -np.inf, np.float32)
    return SideSums(log_sums, masked, heaps, largest)


def _no_two_in_line(tiles: list[Tile]) -> list[Tile]:
    """The tiles by diagonals: those under way at one time share neither rows nor columns.

    So a tile finds the limits that all tiles before it in its rows and columns leave.
    """
    high = len({tile.rows.start for tile in tiles})
    wide = len(tiles) // high
    return [tiles[row * wide + (row + shift) % wide] for shift in range(wide) for row in range(high)]


_EndSums = tuple[Floats, Floats, Float32s, Entries]
"""Of a tile's n rows, or columns: log sums (T, n), those masked, the largest unsuspected (n,), and the entries that may
be among the hardest."""


class _Pass:
    """What is done with tiles: their sums by row and, unless both sides are one, by column."""

    def __init__(
        self,
        x: Float32s,
        y: Float32s,
        temperatures: Sequence[float],
        backend: Backend,
        removed: SuspectPairs,
        hardest: int,
    ) -> None:
        self.sides = [_nothing(temperatures, side, hardest) for side in ((x,) if x is y else (x, y))]
        self._scales = [1.0 / temperature for temperature in temperatures]
        self._backend, self._one_side = backend, x is y
        self._loaded = backend.load(x, y)
        rows, cols = removed.both_ways()
        places, self._starts = grouped(rows, len(x))
        self._suspects = rows[places], cols[places]
        self._groups = None if removed.groups is None else group_numbers(removed.groups)
        zeros = [np.zeros(len(side), np.float32) for side in (x, y)]
        # For each row, and each column, what its hardest are above; it rises.
        self._above = [np.full(len(side.hardest), -np.inf, np.float32) for side in self.sides]
        self._limits = [Limits(self._above[0], zeros[1]), Limits(zeros[0], self._above[-1])]

    def add(self, tile: Tile, ends: list[_EndSums]) -> None:
        """Add a tile's sums to those of its rows, and of its columns."""
        for end, (side, (plain, masked, largest, hard)) in enumerate(zip(self.sides, ends, strict=True)):
            places = tile[end]
            for total, part in ((side.log_sums, plain), (side.masked, masked)):
                np.logaddexp(total[:, places], part, out=total[:, places])
            np.maximum(side.hardest_unsuspected[places], largest, out=side.hardest_unsuspected[places])
            if side.hardest.size:
                keep_largest(side.hardest, (hard.rows, hard.cols)[end], hard.values)
                np.maximum(self._above[end][places], side.hardest[places, 0], out=self._above[end][places])

    def of_tile(self, tile: Tile) -> list[_EndSums]:
        """The sums by row, and by column."""
        product = self._backend.product(self._loaded, tile)
        shared = np.arange(max(tile.rows.start, tile.cols.start), min(tile.rows.stop, tile.cols.stop))
        own = shared - tile.rows.start, shared - tile.cols.start
        positives = -np.inf if self._one_side else product[own]
        product[own] = positives
        plain = masked = self._log_sums(product)
        product[own] = -np.inf
        hard = [self._candidates(product, tile, end) for end in range(len(self.sides))]
        removed = self._remove_suspects(product, tile)
        largest = [self._backend.of_rank(along, 1) for along in (product, product.T)[: len(self.sides)]]
        if removed:
            product[own] = positives
            masked = self._log_sums(product)
        return list(zip(plain, masked, largest, hard, strict=False))  # sums are by both ends whatever is asked

    def _log_sums(self, product: Product) -> list[Floats]:
        """(T, n) by row, and by column."""
        return [
            np.stack(parts)
            for parts in zip(*(self._backend.log_sums(product, scale) for scale in self._scales), strict=True)
        ]

    def _candidates(self, product: Product, tile: Tile, end: int) -> Entries:
        """What may be among the hardest of its row (end 0) or column (end 1)."""
        above, count = self._above[end][tile[end]], self.sides[end].hardest.shape[1]
        if count == 0:
            return Entries.joined([])
        along = product.T if end else product
        if along.shape[1] >= count and np.isneginf(above).any():
            np.maximum(above, np.nextafter(self._backend.of_rank(along, count), np.float32(-np.inf)), out=above)
        return self._backend.above(product, tile, self._limits[end])

    def _remove_suspects(self, product: Product, tile: Tile) -> bool:
        """Put −inf at the suspected entries of a tile; whether there may be any."""
        some = slice(self._starts[tile.rows.start], self._starts[tile.rows.stop])
        rows, cols = (ends[some].astype(np.int64) for ends in self._suspects)
        inside = (cols >= tile.cols.start) & (cols < tile.cols.stop)
        product[rows[inside] - tile.rows.start, cols[inside] - tile.cols.start] = -np.inf
        if self._groups is not None:
            product[self._groups[tile.rows, None] == self._groups[tile.cols]] = -np.inf
        return bool(inside.any()) or self._groups is not None
