"""Cut X Yᵀ into tiles and run a function on each, in several threads, with the results in order."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from gcbs_cli.similarity.backend import Backend

Result = TypeVar("Result")

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


def run_tiles(
    backend: Backend, tiles: list[Tile], work: Callable[[Tile], Result], progress: Progress | None = None
) -> Iterator[tuple[Tile, Result]]:
    """`work(tile)` for every tile, yielded in the order of the tiles; at most two a worker are under way at once."""
    total = sum(tile.entries for tile in tiles)
    done = 0
    with backend.running():
        for tile, result in _in_order(backend.workers, tiles, work):
            yield tile, result
            done += tile.entries
            if progress is not None:
                progress(done, total)


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
