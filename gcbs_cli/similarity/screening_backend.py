"""Tiles on the CPU, with entries above a threshold found by products of bytes where that is quicker."""

import threading
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.similarity.backend import Entries, Finder
from gcbs_cli.similarity.byte_kernels import BLOCK_COLS, BLOCK_ROWS, ByteKernels, byte_kernels
from gcbs_cli.similarity.byte_screen import MOST_DIM, ByteScreen
from gcbs_cli.similarity.numpy_backend import NumpyBackend
from gcbs_cli.similarity.spread_rows import spread_rows
from gcbs_cli.similarity.tiles import Tile

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

    def finder(
        self, x: NDArray[np.float32], y: NDArray[np.float32], threshold: float, trial_of: int | None = None
    ) -> Finder:
        plain = super().finder(x, y, threshold)
        dim = x.shape[1]
        if (trial_of or len(x) * len(y)) * dim < self._least_products or dim > MOST_DIM:
            return plain
        kernels = byte_kernels()
        if kernels is None or not self._pays(kernels, x, y, threshold):
            return plain
        return self._screening(ByteScreen(kernels, x, y), threshold, plain)

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
        tile = Tile(slice(0, len(left)), slice(0, len(right)))
        plain = super().finder(left, right, threshold)
        screening = self._screening(ByteScreen(kernels, left, right), threshold, plain)
        with self.running():
            return _seconds(screening, tile) < _seconds(plain, tile)


def _seconds(find: Callable[[Tile], Entries], tile: Tile) -> float:
    """The least of a few runs: others use the machine too."""
    best = float("inf")
    for _ in range(TRIAL_REPEATS):
        began = time.perf_counter()
        find(tile)
        best = min(best, time.perf_counter() - began)
    return best
