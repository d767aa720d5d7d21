"""What every device offers on tiles of a product: list large entries, and rank; for sums, the products themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.products.tiles import Runner, Tile

EVERYTHING = -(1 << 28)
"""A limit below every number of a grid, even after offsets are taken from it."""
NOTHING = 1 << 28
"""A limit above every number of a grid."""

FLOAT32_UNIT_ROUNDOFF = 2.0**-24

Loaded = Any
"""Two sides, put where a device multiplies them."""
Product = Any
"""(r, c) products of a tile: a numpy array or a torch tensor, which arrays of places index alike."""


@dataclass(frozen=True)
class Entries:
    """Entries of a product: rows (n,), cols (n,) int32 of the whole matrix, and values (n,).

    values: int32 products of a grid's rows, without its offsets, or float32 products of real rows.
    """

    rows: NDArray[np.int32]
    cols: NDArray[np.int32]
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.rows)

    def chosen(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> "Entries":
        """Only these, by a mask or by their places."""
        return Entries(self.rows[which], self.cols[which], self.values[which])


@dataclass(frozen=True)
class Limits:
    """An entry is listed where product > row[i] + col[j]; row (N,), col (M,), int32 for a grid, else float32.

    The offsets of a grid are part of the limits: x·y + a + b > t is x·y > (t − a) + (−b).
    """

    row: NDArray[Any]
    col: NDArray[Any]


class Backend(Runner, Protocol):
    """Operations on tiles, on one device or several."""

    name: str
    devices: Sequence[str]
    """What torch calls them, such as `cpu` or `cuda:0`."""

    def load(self, left: NDArray[Any], right: NDArray[Any]) -> Loaded:
        """Two sides (N, D) and (M, D): int8 or int16 rows of a grid, or float32 unit rows."""
        ...

    def scan(self, loaded: Loaded, tile: Tile, limits: Sequence[Limits]) -> list[Entries]:
        """For each of the limits the entries of the tile above it, in any order."""
        ...

    def kth(self, loaded: Loaded, rows: slice, rank: int, col_offsets: NDArray[np.int32] | None = None) -> NDArray[Any]:
        """(r,) the value of this rank, 1 for the largest, among each row's products with all columns.

        `col_offsets`: (M,) added to the products first. The result is memory of its own, no view of the products.
        """
        ...

    def product(self, loaded: Loaded, rows: slice, cols: slice) -> Product:
        """(r, c) float32 products of a tile; valid until the same thread asks for the next one."""
        ...

    def above(self, product: Product, tile: Tile, limits: Limits) -> Entries:
        """The entries of a tile's product above limits of all rows and columns, in any order."""
        ...

    def of_rank(self, product: Product, rank: int) -> NDArray[Any]:
        """(r,) the value of this rank, 1 for the largest, in each row of a product."""
        ...

    def largest(self, product: Product) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The largest value of each row (r,) and of each column (c,)."""
        ...

    def hide_equal(self, product: Product, row_ids: NDArray[np.int32], col_ids: NDArray[np.int32]) -> None:
        """Put −inf into a product where a row (r,) and a column (c,) have the same id."""
        ...

    def log_sums(
        self, product: Product, inverse_temperature: float, *, columns: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """log Σ exp(s · inverse_temperature) of each row (r,), and of each column (c,) where asked."""
        ...


def float32_error(dim: int) -> float:
    """Bound on the rounding of a float32 dot product of unit rows, in any order of summation.

    Higham, Accuracy and Stability of Numerical Algorithms, section 3.1: |error| <= γ_d Σ|x_i y_i|, and the sum is at
    most ‖x‖‖y‖, which for float32 unit rows is at most 1 + 2⁻²². Fused multiply-adds only make it smaller.
    """
    growth = (dim + 2) * FLOAT32_UNIT_ROUNDOFF
    return growth / (1.0 - growth) * (1.0 + 2.0**-20)
