"""Cut X Yᵀ into tiles and run a function on each, in several threads, with the results in order."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from typing import Generic, Protocol, TypeVar

from gcbs_cli.system.errors import OutOfDeviceMemory
from gcbs_cli.system.threads import in_order

Result = TypeVar("Result")

DEFAULT_TILE_ROWS = 1024
DEFAULT_TILE_COLS = 2048
LEAST_TILE = 1 << 14
"""Products of a tile that is not halved any more."""
BYTES_PER_TILE_ENTRY = 9
"""A float32 product, a float32 copy of it in use, and a byte of mask."""

Progress = Callable[[int, int], None]
"""Called as (entries done, entries in all) from the thread that asked for the pass."""


class Runner(Protocol):
    """What runs tiles: one device, or several."""

    workers: int
    """Threads that ask for tiles at once, each on its own."""
    tile_shape: tuple[int, int]
    """Rows and columns of the tiles that suit the device."""
    least_tile: int
    """Products of a tile that is not halved any more."""
    memory_errors: tuple[type[Exception], ...]
    """What is raised where a tile does not fit in the device's memory and a smaller one may."""

    def running(self) -> AbstractContextManager[None]:
        """Held while tiles run: one BLAS thread a worker."""
        ...

    def free_memory(self) -> None:
        """Let go of memory that is held for later tiles."""
        ...


@dataclass(frozen=True)
class Tile:
    """Rows × columns of the product."""

    rows: slice
    cols: slice

    @property
    def entries(self) -> int:
        """Number of products in the tile."""
        return (self.rows.stop - self.rows.start) * (self.cols.stop - self.cols.start)

    def halves(self, *, whole_rows: bool = False) -> "tuple[Tile, Tile]":
        """Two tiles, cut across the longer side, or (`whole_rows`) between rows."""
        rows, cols = self.rows, self.cols
        if not whole_rows and rows.stop - rows.start < cols.stop - cols.start:
            middle = (cols.start + cols.stop) // 2
            return Tile(rows, slice(cols.start, middle)), Tile(rows, slice(middle, cols.stop))
        middle = (rows.start + rows.stop) // 2
        return Tile(slice(rows.start, middle), cols), Tile(slice(middle, rows.stop), cols)


def tile_rows_for(memory: int, workers: int, tile_cols: int = DEFAULT_TILE_COLS) -> int:
    """Rows a tile so that the scratch memory of all workers stays within `memory` bytes; at least 16, at most 1,024."""
    rows = memory // (workers * tile_cols * BYTES_PER_TILE_ENTRY)
    return max(16, min(DEFAULT_TILE_ROWS, rows))


def cut(rows: int, cols: int, tile_rows: int | None = None, tile_cols: int = DEFAULT_TILE_COLS) -> list[Tile]:
    """All tiles of a (rows, cols) product, a strip of rows after the other."""
    height = tile_rows or DEFAULT_TILE_ROWS
    return [
        Tile(slice(top, min(top + height, rows)), slice(left, min(left + tile_cols, cols)))
        for top in range(0, rows, height)
        for left in range(0, cols, tile_cols)
    ]


def tiles_for(backend: Runner, rows: int, cols: int, tile_rows: int | None = None) -> list[Tile]:
    """All tiles of a (rows, cols) product, of the shape that suits the device."""
    height, width = backend.tile_shape
    return cut(rows, cols, tile_rows or height, width)


def run_tiles(
    backend: Runner,
    tiles: list[Tile],
    work: Callable[[Tile], Result],
    progress: Progress | None = None,
    *,
    whole_rows: bool = False,
) -> Iterator[tuple[Tile, Result]]:
    """`work(tile)` for every tile, yielded in the order of the tiles; at most two a worker are under way at once.

    A tile that does not fit in the device's memory is yielded as the parts of it that do, which have all its columns if
    `whole_rows`. Raises OutOfDeviceMemory where not even small ones fit.
    """
    total = sum(tile.entries for tile in tiles)
    done = 0
    fitting = _Fitting(backend, work, whole_rows)
    with backend.running():
        for tile, result in chain.from_iterable(in_order(backend.workers, tiles, fitting)):
            yield tile, result
            done += tile.entries
            if progress is not None:
                progress(done, total)


class _Fitting(Generic[Result]):
    """The work on a tile, in as few parts as the device's memory allows; what did not fit once is not tried again.

    Of several devices each has a thread, so a thread keeps to itself what did not fit.
    """

    def __init__(self, backend: Runner, work: Callable[[Tile], Result], whole_rows: bool) -> None:
        self._backend, self._work, self._whole_rows = backend, work, whole_rows
        self._thread = threading.local()

    def __call__(self, tile: Tile) -> list[tuple[Tile, Result]]:
        """The parts of the tile with their results."""
        if tile.entries <= getattr(self._thread, "most", tile.entries):
            try:
                return [(tile, self._work(tile))]
            except self._backend.memory_errors as error:
                self._halve(tile, error)
            self._backend.free_memory()  # only here has the error let go of the tile that failed
        return [part for half in self._halves(tile) for part in self(half)]

    def _halves(self, tile: Tile) -> tuple[Tile, Tile]:
        return tile.halves(whole_rows=self._whole_rows)

    def _halve(self, tile: Tile, error: Exception) -> None:
        if tile.entries <= self._backend.least_tile or (self._whole_rows and tile.rows.stop - tile.rows.start == 1):
            what = f"even {tile.entries:,} products at once, beside the embeddings"
            raise OutOfDeviceMemory(what, "a higher --quantile, fewer rows") from error
        self._thread.most = max(half.entries for half in self._halves(tile))
