"""Cut X Yᵀ into tiles and run a function on each, in several threads, with the results in order."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Generic, Protocol, TypeVar

from numpy.typing import NDArray

from gcbs_cli.products.backend import Backend
from gcbs_cli.system.errors import OutOfDeviceMemory
from gcbs_cli.system.threads import in_order

Result = TypeVar("Result")

BLOCK_ENTRIES = 1 << 28
"""Entries of X Yᵀ after which a pass that keeps its results saves them: about a second of products."""
MOST_BLOCKS = 1000
DEFAULT_TILE_ROWS = 1024
DEFAULT_TILE_COLS = 2048
LEAST_TILE = 1 << 14
"""Products of a tile that is not halved any more."""
BYTES_PER_TILE_ENTRY = 9
"""A float32 product, a float32 copy of it in use, and a byte of mask."""

Progress = Callable[[int, int], None]
"""Called as (entries done, entries in all) from the thread that asked for the pass."""


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


def tiles_for(backend: Backend, rows: int, cols: int, tile_rows: int | None = None) -> list[Tile]:
    """All tiles of a (rows, cols) product, of the shape that suits the device."""
    height, width = backend.tile_shape
    return cut(rows, cols, tile_rows or height, width)


class BlockStore(Protocol):
    """Where results of blocks of tiles outlive the process; `gcbs_cli.planning.checkpoints` has one."""

    def load(self, stage: str, number: int, block: str) -> list[NDArray[Any]] | None:
        """The arrays of a block of a stage; None when it is not there, is damaged, or is not this very `block`."""
        ...

    def save(self, stage: str, number: int, block: str, arrays: Sequence[NDArray[Any]]) -> None:
        """Keep the arrays of a block."""
        ...


@dataclass(frozen=True)
class Kept(Generic[Result]):
    """Where and how a pass keeps its results.

    `stage`: which pass of the run, in lower-case letters; `settings`: what decides its results beside the run's own;
    `width`: so many arrays make a result.
    """

    store: BlockStore
    stage: str
    settings: str
    width: int
    pack: Callable[[Result], Sequence[NDArray[Any]]]
    unpack: Callable[[Sequence[NDArray[Any]]], Result]

    def load(self, number: int, tiles: list[Tile]) -> list[Result] | None:
        """The results of a block of tiles."""
        arrays = self.store.load(self.stage, number, self._block(tiles))
        if arrays is None or len(arrays) != self.width * len(tiles):
            return None
        return [self.unpack(arrays[start : start + self.width]) for start in range(0, len(arrays), self.width)]

    def save(self, number: int, tiles: list[Tile], results: list[Result]) -> None:
        """Keep the results of a block of tiles."""
        arrays = [array for result in results for array in self.pack(result)]
        self.store.save(self.stage, number, self._block(tiles), arrays)

    def _block(self, tiles: list[Tile]) -> str:
        first, last = tiles[0], tiles[-1]
        return f"{self.settings} {len(tiles)} {first.rows} {first.cols} {last.rows} {last.cols}"


def run_tiles(
    backend: Backend,
    tiles: list[Tile],
    work: Callable[[Tile], Result],
    progress: Progress | None = None,
    kept: Kept[Result] | None = None,
    *,
    whole_rows: bool = False,
) -> Iterator[tuple[Tile, Result]]:
    """`work(tile)` for every tile, yielded in the order of the tiles; at most two a worker are under way at once.

    `kept`: results that are there from an earlier run are taken, new ones are added. A tile that does not fit in the
    device's memory is yielded as the parts of it that do, which have all its columns if `whole_rows`. Raises
    OutOfDeviceMemory where not even small ones fit.
    """
    total = sum(tile.entries for tile in tiles)
    done = 0
    fitting = _Fitting(backend, work, whole_rows)
    with backend.running():
        found = (
            in_order(backend.workers, tiles, fitting)
            if kept is None
            else _resumed(backend.workers, tiles, fitting, kept)
        )
        for tile, result in chain.from_iterable(found):
            yield tile, result
            done += tile.entries
            if progress is not None:
                progress(done, total)


class _Fitting(Generic[Result]):
    """The work on a tile, in as few parts as the device's memory allows; what did not fit once is not tried again.

    Of several devices each has a thread, so a thread keeps to itself what did not fit.
    """

    def __init__(self, backend: Backend, work: Callable[[Tile], Result], whole_rows: bool) -> None:
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
        if tile.entries <= LEAST_TILE or (self._whole_rows and tile.rows.stop - tile.rows.start == 1):
            what = f"even {tile.entries:,} products at once, beside the embeddings"
            raise OutOfDeviceMemory(what, "a higher --quantile, fewer rows") from error
        self._thread.most = max(half.entries for half in self._halves(tile))


_Parts = list[tuple[Tile, Result]]


def _resumed(
    workers: int, tiles: list[Tile], fitting: _Fitting[Result], kept: Kept[Result]
) -> Iterator[_Parts[Result]]:
    """Block after block: what is kept, else what is new. The new tiles are one stream, so that no worker waits."""
    blocks = _blocks(tiles)
    there = [kept.load(number, block) is not None for number, block in enumerate(blocks)]
    missing = [tile for block, held in zip(blocks, there, strict=True) if not held for tile in block]
    stream = in_order(workers, missing, fitting)
    for number, (block, held) in enumerate(zip(blocks, there, strict=True)):
        results = kept.load(number, block) if held else None
        if results is not None:
            yield list(zip(block, results, strict=True))
            continue
        # A block that was damaged since it was looked for is done on its own.
        found = list(in_order(workers, block, fitting) if held else islice(stream, len(block)))
        if all(len(parts) == 1 for parts in found):  # results of parts of tiles are not kept
            kept.save(number, block, [parts[0][1] for parts in found])
        yield from found


def _blocks(tiles: list[Tile]) -> list[list[Tile]]:
    """Consecutive tiles in groups of BLOCK_ENTRIES or more, at most MOST_BLOCKS."""
    least = max(BLOCK_ENTRIES, sum(tile.entries for tile in tiles) // MOST_BLOCKS)
    blocks: list[list[Tile]] = []
    entries = least
    for tile in tiles:
        if entries >= least:
            blocks.append([])
            entries = 0
        blocks[-1].append(tile)
        entries += tile.entries
    return blocks
