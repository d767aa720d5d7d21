"""Tiles on the CPU, with entries above a threshold found by products of bytes where that is quicker."""

import threading
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.products.backend import Entries, Finder, LimitedRows, Lister
from gcbs_cli.products.byte_kernels import BLOCK_COLS, BLOCK_ROWS, ByteKernels, byte_kernels
from gcbs_cli.products.byte_screen import MOST_DIM, ByteScreen
from gcbs_cli.products.numpy_backend import NumpyBackend
from gcbs_cli.products.spread_rows import spread_places, spread_rows
from gcbs_cli.products.tiles import Tile

LEAST_PRODUCTS = 1 << 35
"""Multiplications from which on a pass lasts longer (about 0.3 s) than compiling and trying the byte products."""
TRIAL_ROWS = 40 * BLOCK_ROWS
TRIAL_COLS = 32 * BLOCK_COLS
TRIAL_REPEATS = 3


class ScreeningBackend(NumpyBackend):
    """A NumpyBackend whose finder screens with bytes if a trial on the data at hand says that this pays.

    It does not where the processor lacks the instructions, where the pass is short, and where so many entries come
    near the threshold that multiplying them again costs more than is saved.
    """

    def __init__(self, workers: int | None = None, least_products: int = LEAST_PRODUCTS) -> None:
        super().__init__(workers)
        self._least_products = least_products
        self._places = threading.local()

    def finder(self, x: NDArray[np.float32], y: NDArray[np.float32], threshold: float) -> Finder:
        plain = super().finder(x, y, threshold)
        kernels = self._kernels_for(len(x) * len(y), x.shape[1])
        if kernels is None or not self._pays(kernels, x, y, threshold):
            return plain
        return self._screening(ByteScreen(kernels, x, y), threshold, plain)

    def _kernels_for(self, entries: int, dim: int) -> ByteKernels | None:
        """The products of bytes where a pass over so many entries may gain from them."""
        if entries * dim < self._least_products or dim > MOST_DIM:
            return None
        return byte_kernels()

    def lister(self, limited: LimitedRows) -> Lister | None:
        x, y = limited.x, limited.y
        kernels = self._kernels_for(len(x) * len(y), x.shape[1])
        if kernels is None:
            return None
        rows, cols = spread_places(len(x), TRIAL_ROWS), spread_places(len(y), TRIAL_COLS)
        trial = LimitedRows(x[rows], y[cols], limited.x_limits[rows], limited.y_limits[cols])
        listing = self._listing(ByteScreen(kernels, trial.x, trial.y), trial)
        if not self._is_quicker(listing, self._comparing(trial), len(rows), len(cols)):
            return None
        return self._listing(ByteScreen(kernels, x, y), limited)

    def _listing(self, screen: ByteScreen, limited: LimitedRows) -> Lister:
        """Two screens of a tile, by the limits of its rows and of its columns."""
        margins, compare = screen.margins_below(limited.y_limits), self._comparing(limited)

        def both(tile: Tile) -> tuple[Entries, Entries]:
            if not screen.fits(tile):
                return compare(tile)
            room = self._room(tile.entries)
            return screen.above_rows(tile, limited.x_limits, room), screen.above_cols(tile, margins, room)

        return both

    def _comparing(self, limited: LimitedRows) -> Lister:
        """The same by float32 products."""

        def both(tile: Tile) -> tuple[Entries, Entries]:
            product = self.product(limited.x, limited.y, tile.rows, tile.cols)
            by_row = self.above(product, limited.x_limits[tile.rows, None])
            return by_row, self.above(product, limited.y_limits[None, tile.cols])

        return both

    def _screening(self, screen: ByteScreen, threshold: float, plain: Finder) -> Finder:
        def find(tile: Tile) -> Entries:
            if not screen.fits(tile):
                return plain(tile)
            return screen.reaching(tile, threshold, self._room(tile.entries))

        return find

    def _room(self, entries: int) -> NDArray[np.int32]:
        """(2, entries) memory of this thread."""
        held: NDArray[np.int32] | None = getattr(self._places, "held", None)
        if held is None or held.shape[1] < entries:
            held = self._places.held = np.empty((2, entries), np.int32)
        return held

    def _pays(self, kernels: ByteKernels, x: NDArray[np.float32], y: NDArray[np.float32], threshold: float) -> bool:
        """Whether bytes are quicker on a small tile of rows and columns from everywhere (hundredths of a second)."""
        left, right = spread_rows(x, TRIAL_ROWS), spread_rows(y, TRIAL_COLS)
        plain = super().finder(left, right, threshold)
        screening = self._screening(ByteScreen(kernels, left, right), threshold, plain)
        return self._is_quicker(screening, plain, len(left), len(right))

    def _is_quicker(self, one: Callable[[Tile], object], other: Callable[[Tile], object], rows: int, cols: int) -> bool:
        """Whether one way to search so many rows and columns takes less time than the other."""
        tile = Tile(slice(0, rows), slice(0, cols))
        with self.running():
            return _seconds(one, tile) < _seconds(other, tile)


def _seconds(find: Callable[[Tile], object], tile: Tile) -> float:
    """The least of a few runs: others use the machine too."""
    best = float("inf")
    for _ in range(TRIAL_REPEATS):
        began = time.perf_counter()
        find(tile)
        best = min(best, time.perf_counter() - began)
    return best
