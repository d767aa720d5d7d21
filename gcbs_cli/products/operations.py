"""What every device offers on tiles of a product: list large entries, and rank; for sums, the products themselves."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gcbs_cli.system.arrays import Array, Bools, Floats, Int32s
from gcbs_cli.system.threads import in_order

DEFAULT_TILE_ROWS = 1024
DEFAULT_TILE_COLS = 2048

ProgressCallback = Callable[[int, int], None]
"""Called as (entries done, entries in all) from the thread that asked for the pass."""

Result = TypeVar("Result")

EVERYTHING = -(1 << 28)
"""A limit below every number of a grid, even after offsets are taken from it."""

FLOAT32_UNIT_ROUNDOFF = 2.0**-24

Loaded = Any
"""Two sides, put where a device multiplies them."""
Product = Any
"""(r, c) products of a tile: a numpy array or a torch tensor, which numpy's arrays of places and masks index alike."""


_NO_ENTRIES = np.empty((3, 0), np.int32)


class Tile(NamedTuple):
    """Rows × columns of the product."""

    rows: slice
    cols: slice

    @property
    def height(self) -> int:
        """Number of rows."""
        return int(self.rows.stop - self.rows.start)

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.cols.stop - self.cols.start)

    @property
    def entries(self) -> int:
        """Number of products in the tile."""
        return self.height * self.width


def cut(
    rows: int, cols: int, tile_rows: int = DEFAULT_TILE_ROWS, tile_cols: int = DEFAULT_TILE_COLS, first: int = 0
) -> list[Tile]:
    """All tiles of the products of the rows from the first up to `rows`, a line of tiles after the other."""
    return [
        Tile(slice(top, min(top + tile_rows, rows)), slice(left, min(left + tile_cols, cols)))
        for top in range(first, rows, tile_rows)
        for left in range(0, cols, tile_cols)
    ]


@dataclass(frozen=True)
class Entries:
    """Entries of a product: rows (n,), cols (n,) int32 of the whole matrix, and values (n,).

    values: int32 products of a grid's rows, without its offsets, or float32 products of real rows.
    """

    rows: Int32s
    cols: Int32s
    values: Array

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def joined(cls, parts: "Sequence[Entries]") -> "Entries":
        """All entries of some parts, of a grid."""
        columns = zip(_NO_ENTRIES, *((part.rows, part.cols, part.values) for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def chosen(self, which: Bools) -> "Entries":
        """Only these, by a mask."""
        return Entries(self.rows[which], self.cols[which], self.values[which])

    def off_diagonal(self) -> "Entries":
        """Without those of positive pairs."""
        return self.chosen(self.rows != self.cols)


@dataclass(frozen=True)
class Limits:
    """An entry is listed where product > row[i] + col[j]; row (N,), col (M,), int32.

    The offsets of a grid are part of the limits: x·y + a + b > t is x·y > (t − a) + (−b).
    """

    row: Array
    col: Array


class Backend(ABC):
    """Operations on tiles, on one device or several."""

    name: str
    devices: Sequence[str] = ("cpu",)
    """What torch calls them, such as `cuda:0`."""
    workers: int
    """Threads that ask for tiles at once, each on its own."""
    tile_shape = (DEFAULT_TILE_ROWS, DEFAULT_TILE_COLS)
    """Rows and columns of the tiles that suit the device."""
    tile_rows: int | None = None
    """Rows of the tiles where a person named them."""

    def tiles(self, rows: int, cols: int, first: int = 0) -> list[Tile]:
        """All tiles of the products of the rows from the first up to `rows`."""
        height, width = self.tile_shape
        return cut(rows, cols, self.tile_rows or height, width, first)

    def run(
        self, tiles: list[Tile], work: Callable[[Tile], Result], progress: ProgressCallback | None = None
    ) -> Iterator[tuple[Tile, Result]]:
        """`work(tile)` for every tile, yielded in the order of the tiles; at most two a worker under way at once."""
        total, done = sum(tile.entries for tile in tiles), 0
        with self.running():
            for tile, result in zip(tiles, in_order(self.workers, tiles, work), strict=True):
                yield tile, result
                done += tile.entries
                if progress is not None:
                    progress(done, total)

    @abstractmethod
    def running(self) -> AbstractContextManager[None]:
        """Held while tiles run."""

    @abstractmethod
    def load(self, left: Array, right: Array) -> Loaded:
        """Two sides (N, D) and (M, D): int8 or int16 rows of a grid, or float32 unit rows."""

    @abstractmethod
    def product(self, loaded: Loaded, tile: Tile, sides: tuple[int, int] = (0, 1)) -> Product:
        """(r, c) products of a tile, rows of one side by rows of another (0: left, 1: right).

        Valid until the same thread asks for the next one of these sides.
        """

    @abstractmethod
    def array(self, values: Array) -> Product:
        """Numbers of the host where this thread's products are."""

    def scan(self, loaded: Loaded, tile: Tile, limits: Sequence[Limits]) -> list[Entries]:
        """For each of the limits the entries of the tile above it, in any order."""
        product = self.product(loaded, tile)
        parts = []
        for each in limits:
            row = self.array(each.row[tile.rows].astype(np.float32))
            col = self.array(each.col[tile.cols].astype(np.float32))
            entries = self.listed(product, tile, product > row[:, None] + col)
            parts.append(Entries(entries.rows, entries.cols, entries.values.astype(np.int32, copy=False)))
        return parts

    @abstractmethod
    def listed(self, product: Product, tile: Tile, mask: Product) -> Entries:
        """The entries of a tile's product where a mask (r, c) is true, in any order."""

    @abstractmethod
    def of_rank(self, product: Product, rank: int, offsets: Int32s | None = None) -> Array:
        """(r,) the value of this rank, 1 for the largest, in each row of a product; memory of its own, no view.

        `offsets`: (c,) added to the columns of the product first.
        """

    @abstractmethod
    def log_sums(
        self, product: Product, inverse_temperature: float, mask: Product | None = None
    ) -> tuple[Floats, Floats]:
        """log Σ exp(s · inverse_temperature) of each row (1, r), and of each column (1, c).

        With a mask (r, c): (2, r) and (2, c), of all entries and of those outside it.
        """
