"""What a device must be able to do with one tile of X Yᵀ, and which device is meant by a name."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.products.devices import devices_named

if TYPE_CHECKING:
    from gcbs_cli.products.tiles import Tile

FLOAT32_UNIT_ROUNDOFF = 2.0**-24

Array = Any
"""An array of the backend's own kind: a numpy array or a torch tensor."""


@dataclass(frozen=True)
class Entries:
    """Entries of one tile: local row and column (int64) and value (float32)."""

    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    values: NDArray[np.float32]

    def chosen(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> "Entries":
        """Only these, by a mask or by their places."""
        return Entries(self.rows[which], self.cols[which], self.values[which])


Finder = Callable[["Tile"], Entries]
"""Gives the entries of a tile that may be at or above a threshold."""


@dataclass(frozen=True)
class LimitedRows:
    """The rows of both sides with a limit each, float32: x (N, d), y (M, d), x_limits (N,), y_limits (M,)."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    x_limits: NDArray[np.float32]
    y_limits: NDArray[np.float32]


Lister = Callable[["Tile"], tuple[Entries, Entries]]
"""Gives the entries of a tile whose value on the device exceeds the limit of their row, and of their column; others may
be among them."""


@dataclass(frozen=True)
class EntryLimits:
    """Which entries a pass lists, and which it leaves out of its sums.

    Listed: those above `threshold`, above rows[i] or above cols[j]. Left out: those above `threshold` and above
    min(suspicion[i], suspicion[j]), but for the diagonal. rows, cols, suspicion: (N,) float32.
    """

    threshold: float
    rows: NDArray[np.float32]
    cols: NDArray[np.float32]
    suspicion: NDArray[np.float32]


@dataclass(frozen=True)
class TileSummary:
    """The listed entries of a tile in row-major order, (n,) which of them the sums leave out, and its log sums.

    row_sums: (T, r), col_sums: (T, c) float64, log Σ exp(s / temperature) for each temperature.
    """

    entries: Entries
    left_out: NDArray[np.bool_]
    row_sums: NDArray[np.float64]
    col_sums: NDArray[np.float64]


class Summariser(Protocol):
    """Sums and entries of tiles, without their products in memory."""

    tile_rows: int
    tile_cols: int

    def __call__(self, tile: "Tile") -> TileSummary:
        """The summary of one tile, the best size of which is tile_rows × tile_cols; the backend's `error` holds."""
        ...


class Backend(Protocol):
    """Tile operations on a device, or on several. A pass calls them from `workers` threads, each on its own tile.

    `devices`: what torch calls them, such as `cpu` or `cuda:0`.
    """

    name: str
    devices: Sequence[str]
    workers: int
    tile_shape: tuple[int, int]
    """Rows and columns of the tiles that suit the device."""
    memory_errors: tuple[type[Exception], ...]
    """What it raises where a tile does not fit in its memory and a smaller one may."""

    def free_memory(self) -> None:
        """Let go of memory that is held for later tiles."""
        ...

    def load(self, rows: NDArray[Any]) -> Array:
        """An array with N rows, put where products are made."""
        ...

    def running(self) -> AbstractContextManager[None]:
        """Held while tiles run: one BLAS thread a worker, so that a tile's bits do not depend on their number."""
        ...

    def product(self, x: Array, y: Array, rows: slice, cols: slice) -> Array:
        """(r, c) float32 tile x[rows] · y[cols]ᵀ. Valid until the same thread asks for the next one."""
        ...

    def error(self, dim: int) -> float:
        """A proven bound on |product − exact| for unit rows of `dim` coordinates."""
        ...

    def above(self, tile: Array, threshold: float | NDArray[np.float32]) -> Entries:
        """Entries greater than a number, or than an array that broadcasts against the tile: (r, 1) or (1, c).

        In row-major order.
        """
        ...

    def finder(self, x: NDArray[np.float32], y: NDArray[np.float32], threshold: float) -> Finder:
        """A function for the tiles of X Yᵀ: every entry whose exact value may be at or above the threshold.

        The values are off by at most `error`; entries below the threshold may be among them, and the order is any.
        """
        ...

    def lister(self, limited: LimitedRows) -> Lister | None:
        """A function for the tiles of X Yᵀ that keeps no products, in no order; None where comparing them is quicker.

        The values are off by at most `error`.
        """
        ...

    def summariser(
        self, x: Array, y: Array, limits: EntryLimits, inverse_temperatures: list[float]
    ) -> Summariser | None:
        """A function for the tiles of loaded rows x and y; None where the device has no kernel for it."""
        ...

    def take(self, tile: Array, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.float32]:
        """(n,) the tile's values at these places."""
        ...

    def remove(self, tile: Array, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> None:
        """Put −inf at these places of the tile."""
        ...

    def log_sums(
        self, tile: Array, inverse_temperature: float, *, columns: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """log Σ exp(s · inverse_temperature) of each row (r,), and of each column (c,) where asked."""
        ...

    def part(self, loaded: Array, rows: slice) -> Array:
        """Some rows of what was loaded, where this thread makes products."""
        ...

    def largest(self, tile: Array) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The largest value of each row (r,) and of each column (c,)."""
        ...

    def row_threshold(self, tile: Array, rank: int) -> NDArray[np.float32]:
        """(r,) the value of the given rank (1 is the largest) in each row of the tile."""
        ...


def float32_error(dim: int) -> float:
    """Bound on the rounding of a float32 dot product of unit rows, in any order of summation.

    Higham, Accuracy and Stability of Numerical Algorithms, section 3.1: |error| <= γ_d Σ|x_i y_i|, and the sum is at
    most ‖x‖‖y‖, which for float32 unit rows is at most 1 + 2⁻²². Fused multiply-adds only make it smaller.
    """
    growth = (dim + 2) * FLOAT32_UNIT_ROUNDOFF
    return growth / (1.0 - growth) * (1.0 + 2.0**-20)


def below(threshold: float, error: float) -> float:
    """A float32 number below every fast product of an entry that is truly at or above the threshold."""
    return float(np.nextafter(np.float32(threshold - error), np.float32(-np.inf)))


def plain_finder(backend: Backend, x: NDArray[np.float32], y: NDArray[np.float32], threshold: float) -> Finder:
    """A finder that makes each tile of products and compares it."""
    left, right = backend.load(x), backend.load(y)
    limit = below(threshold, backend.error(x.shape[1]))
    return lambda tile: backend.above(backend.product(left, right, tile.rows, tile.cols), limit)


def choose_backend(device: str) -> Backend:
    """The backend for `auto`, `cpu`, `cuda`, `cuda:i`, `cuda:i,j,...` or `cuda:all`.

    Raises BadInput for an unknown name and for a GPU that is not there.
    """
    devices = devices_named(device)
    if devices == ["cpu"]:
        from gcbs_cli.products.numpy_backend import NumpyBackend

        return NumpyBackend()
    if len(devices) == 1:
        from gcbs_cli.products.torch_backend import TorchBackend

        return TorchBackend(devices[0])
    from gcbs_cli.products.several_devices import SeveralDevices

    return SeveralDevices(devices)
