"""Tiles of X Yᵀ: what is multiplied at once."""

from collections.abc import Callable
from dataclasses import dataclass

DEFAULT_TILE_ROWS = 1024
DEFAULT_TILE_COLS = 2048
BYTES_PER_TILE_ENTRY = 13
"""A float32 product, two float32 copies of it in use, and a byte of mask."""

Progress = Callable[[int, int], None]
"""Called as (entries done, entries in all) from the thread that asked for the pass."""


@dataclass(frozen=True)
class Tile:
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

    def halves(self) -> "tuple[Tile, Tile]":
        """Two tiles with all the columns and half of the rows each."""
        middle = (self.rows.start + self.rows.stop) // 2
        return Tile(slice(self.rows.start, middle), self.cols), Tile(slice(middle, self.rows.stop), self.cols)


def cut(rows: int, cols: int, tile_rows: int = DEFAULT_TILE_ROWS, tile_cols: int = DEFAULT_TILE_COLS) -> list[Tile]:
    """All tiles of a (rows, cols) product, a line of tiles after the other."""
    return [
        Tile(slice(top, min(top + tile_rows, rows)), slice(left, min(left + tile_cols, cols)))
        for top in range(0, rows, tile_rows)
        for left in range(0, cols, tile_cols)
    ]
