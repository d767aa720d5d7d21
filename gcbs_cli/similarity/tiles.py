"""Cut X Yᵀ into tiles and run a function on each, in several threads, with the results in order."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from numpy.typing import NDArray

from gcbs_cli.similarity.backend import Backend

Result = TypeVar("Result")

BLOCK_ENTRIES = 1 << 28
"""Entries of X Yᵀ after which a pass that keeps its results saves them: about a second of products."""
MOST_BLOCKS = 1000
DEFAULT_TILE_ROWS = 1024
DEFAULT_TILE_COLS = 2048
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


class BlockStore(Protocol):
    """Where results of blocks of tiles outlive the process; `gcbs_cli.checkpoints` has one."""

    def load(self, block: str, number: int) -> list[NDArray[Any]] | None:
        """The arrays of a block; None when it is not there or is damaged."""
        ...

    def save(self, block: str, number: int, arrays: Sequence[NDArray[Any]]) -> None:
        """Keep the arrays of a block."""
        ...


@dataclass(frozen=True)
class Kept(Generic[Result]):
    """Where and how a pass keeps its results: `pass_name` says which pass, `width` arrays make a result."""

    store: BlockStore
    pass_name: str
    width: int
    pack: Callable[[Result], Sequence[NDArray[Any]]]
    unpack: Callable[[Sequence[NDArray[Any]]], Result]

    def load(self, number: int, tiles: list[Tile]) -> list[Result] | None:
        """The results of a block of tiles."""
        arrays = self.store.load(self._block(tiles), number)
        if arrays is None or len(arrays) != self.width * len(tiles):
            return None
        return [self.unpack(arrays[start : start + self.width]) for start in range(0, len(arrays), self.width)]

    def save(self, number: int, tiles: list[Tile], results: list[Result]) -> None:
        """Keep the results of a block of tiles."""
        self.store.save(self._block(tiles), number, [array for result in results for array in self.pack(result)])

    def _block(self, tiles: list[Tile]) -> str:
        first, last = tiles[0], tiles[-1]
        return f"{self.pass_name} {len(tiles)} {first.rows} {first.cols} {last.rows} {last.cols}"


def run_tiles(
    backend: Backend,
    tiles: list[Tile],
    work: Callable[[Tile], Result],
    progress: Progress | None = None,
    kept: Kept[Result] | None = None,
) -> Iterator[tuple[Tile, Result]]:
    """`work(tile)` for every tile, yielded in the order of the tiles; at most two a worker are under way at once.

    `kept`: results that are there from an earlier run are taken, new ones are added.
    """
    total = sum(tile.entries for tile in tiles)
    done = 0
    with backend.running():
        for tile, result in (
            _in_order(backend.workers, tiles, work) if kept is None else _resumed(backend.workers, tiles, work, kept)
        ):
            yield tile, result
            done += tile.entries
            if progress is not None:
                progress(done, total)


def _resumed(
    workers: int, tiles: list[Tile], work: Callable[[Tile], Result], kept: Kept[Result]
) -> Iterator[tuple[Tile, Result]]:
    """Block after block: what is kept, else what is new. The new tiles are one stream, so that no worker waits."""
    blocks = _blocks(tiles)
    there = [kept.load(number, block) is not None for number, block in enumerate(blocks)]
    missing = [tile for block, held in zip(blocks, there, strict=True) if not held for tile in block]
    stream = _in_order(workers, missing, work)
    for number, (block, held) in enumerate(zip(blocks, there, strict=True)):
        results = kept.load(number, block) if held else None
        if results is None:
            # A block that was damaged since it was looked for is done on its own.
            source = _in_order(workers, block, work) if held else islice(stream, len(block))
            results = [result for _, result in source]
            kept.save(number, block, results)
        yield from zip(block, results, strict=True)


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


def _in_order(workers: int, tiles: list[Tile], work: Callable[[Tile], Result]) -> Iterator[tuple[Tile, Result]]:
    if workers == 1:
        yield from ((tile, work(tile)) for tile in tiles)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[tuple[Tile, Future[Result]]] = deque()
        try:
            for tile in tiles:
                waiting.append((tile, pool.submit(work, tile)))
                if len(waiting) > 2 * workers:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            for _, future in waiting:
                future.cancel()
