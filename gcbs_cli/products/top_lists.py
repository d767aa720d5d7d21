"""The hardest keys of every query: candidates above a likely limit first, then the choice, exact down to its ties.

A query is a row of one side, its keys are the rows of the other. Everything is a comparison of whole numbers, so the
lists are the same on every device and for every size of tile.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.grid import Grid
from gcbs_cli.products.operations import EVERYTHING, Backend, Entries, Limits
from gcbs_cli.products.tiles import Progress, Tile, cut
from gcbs_cli.system.arrays import equal_rows, grouped
from gcbs_cli.system.threads import in_parts

SAMPLE_KEYS = 2048
SAMPLE_SHARE = 1 / 64
"""Of the keys, where that is more: the smaller the share, the more keys lie above the rank that is safe."""
QUERIES_AT_ONCE = 1024
ENTRIES_AT_ONCE = 1 << 22
"""Of all keys of some queries, which one thread holds."""
LOW_BITS = (1 << 32) - 1
NO_KEY = np.iinfo(np.int64).min


@dataclass(frozen=True)
class TopLists:
    """The hardest keys of consecutive queries, falling; equal ones by rising index, and the lowest are taken."""

    indices: NDArray[np.int32]
    """(n, m)"""
    values: NDArray[np.int32]
    """(n, m) numbers of the grid, with or without its offsets."""


def likely_candidates(count: int, keys: int) -> int:
    """How many keys of a query are expected above its likely limit."""
    size, rank = sample_rank(count, keys)
    return keys if 2 * rank > size else rank * keys // size


def sample_rank(count: int, keys: int) -> tuple[int, int]:
    """How many keys are drawn, and the rank among these that `count` of all keys almost surely exceed."""
    size = min(keys, max(SAMPLE_KEYS, int(SAMPLE_SHARE * keys)))
    expected = count * size / keys
    return size, int(expected + 3.0 * np.sqrt(expected) + 3.0)


class TopSearch:
    """The `count` hardest keys of the queries of one side.

    `side`: 0 for columns of each row, 1 for rows of each column; `offsets`: whether keys compare by their whole
    similarity, or without what the mean of the queries adds to it, which makes some keys hard for every query;
    `skip_own`: leaves key i out of the list of query i.
    """

    def __init__(self, grid: Grid, side: int, count: int, *, offsets: bool = False, skip_own: bool = True) -> None:
        sides: tuple[NDArray[Any], NDArray[Any]] = (grid.y, grid.x) if side else (grid.x, grid.y)
        of_keys = grid.x_offsets if side else grid.y_offsets
        self._side, self._skip_own = side, skip_own
        self._queries, self._keys = sides
        self._offsets = of_keys if offsets else np.zeros_like(of_keys)
        self._count = min(count, len(self._keys) - skip_own)

    def likely_limits(self, backend: Backend, seed: int) -> Limits:
        """For each query what its `count` hardest keys almost surely exceed, and few others.

        From each query's products with a random sample of the keys: the rank at which `count` keys are expected, plus
        three standard deviations. Queries for which it fails are done in full later.
        """
        size, rank = sample_rank(self._count, len(self._keys))
        likely = np.full(len(self._queries), EVERYTHING, np.int32)
        if 2 * rank <= size:
            generator = np.random.default_rng([seed + self._side, 0x4A2D])
            chosen = np.sort(generator.choice(len(self._keys), size, replace=False))
            loaded, offsets = backend.load(self._queries, self._keys[chosen]), self._offsets[chosen]
            height, width = backend.tile_shape
            tiles = cut(len(likely), size, max(1, min(height, height * width // size)), size)

            def limits_of(tile: Tile) -> NDArray[Any]:
                return backend.of_rank(backend.product(loaded, tile), rank, offsets)

            for tile, found in backend.run(tiles, limits_of):
                likely[tile.rows] = found
        return Limits(-self._offsets, likely) if self._side else Limits(likely, -self._offsets)

    def lists(self, candidates: list[Entries], start: int, stop: int) -> TopLists:
        """The lists of these queries from all their entries above the likely limits, which it lets go of."""
        ends = [(part.cols, part.rows) if self._side else (part.rows, part.cols) for part in candidates]
        queries, keys = (np.concatenate([part[end] for part in ends]) for end in range(2))
        values = np.concatenate([part.values for part in candidates])
        candidates.clear()
        if self._skip_own:
            apart = queries != keys
            queries, keys, values = queries[apart], keys[apart], values[apart]
        ranks = _ranks(values + self._offsets[keys], keys)
        places, starts = grouped(queries - np.int32(start), stop - start)
        ranks, counts = ranks[places], np.diff(starts)
        chosen = np.empty((stop - start, self._count), np.int64)

        def choose(first: int, last: int) -> None:
            width = max(int(counts[first:last].max()), self._count)
            table = np.full((last - first, width), NO_KEY)
            table[np.arange(width) < counts[first:last, None]] = ranks[starts[first] : starts[last]]
            chosen[first:last] = _largest(table, self._count)

        in_parts(len(chosen), QUERIES_AT_ONCE, choose)
        short = np.flatnonzero(counts < self._count)
        chosen[short] = self._in_full(short + start)
        return TopLists(_keys_of(chosen), (chosen >> 32).astype(np.int32))

    def of_few(self, queries: NDArray[np.int64]) -> NDArray[np.int32]:
        """(n, count) the keys of these queries alone."""
        return _keys_of(self._in_full(queries))

    def _in_full(self, queries: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n, count) ranks from products with all keys. Queries that are equal have the same, but for their own."""
        if len(queries) == 0:
            return np.empty((0, self._count), np.int64)
        first, contents = equal_rows(self._queries[queries])
        rows, width = queries[first], self._count + self._skip_own
        chosen = np.empty((len(rows), width), np.int64)

        def fill(start: int, stop: int) -> None:
            product = self._queries[rows[start:stop]].astype(np.float32) @ self._keys.astype(np.float32).T
            numbers = product.astype(np.int32) + self._offsets
            chosen[start:stop] = _largest(_ranks(numbers, np.arange(len(self._keys), dtype=np.int32)), width)

        in_parts(len(rows), max(1, ENTRIES_AT_ONCE // len(self._keys)), fill)
        wanted = chosen[contents]
        if not self._skip_own:
            return wanted
        apart = _keys_of(wanted) != queries[:, None]
        apart[:, -1] &= ~apart.all(axis=1)  # without its own key among them, a query has all but the last
        return wanted[apart].reshape(-1, self._count)


def lists_by_rows(
    grid: Grid,
    count: int,
    backend: Backend,
    *,
    seed: int = 0,
    skip_own: bool = True,
    tile_rows: int | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[slice, TopLists]]:
    """The hardest columns of each row by their whole similarity, for some rows after the others, in one pass.

    Memory: the candidates of one row of tiles.
    """
    search = TopSearch(grid, 0, count, offsets=True, skip_own=skip_own)
    limits, loaded = search.likely_limits(backend, seed), backend.load(grid.x, grid.y)
    tiles = backend.tiles(len(grid.x), len(grid.y), tile_rows)
    parts: list[Entries] = []
    start = seen = 0
    for tile, found in backend.run(tiles, lambda tile: backend.scan(loaded, tile, [limits]), progress):
        parts += found
        seen += tile.entries
        # A tile that did not fit comes as its parts; the rows are complete when all their entries have been seen.
        if seen == (tile.rows.stop - start) * len(grid.y):
            yield slice(start, tile.rows.stop), search.lists(parts, start, tile.rows.stop)
            start, seen = tile.rows.stop, 0


def _ranks(values: NDArray[np.int32], keys: NDArray[np.int32]) -> NDArray[np.int64]:
    """One number for value and key: the larger the harder, and of equal values the lower key first."""
    return (values.astype(np.int64) << 32) | (LOW_BITS - keys.astype(np.int64))


def _keys_of(ranks: NDArray[np.int64]) -> NDArray[np.int32]:
    return (LOW_BITS - (ranks & LOW_BITS)).astype(np.int32)


def _largest(table: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """(n, count) the largest of each line, falling."""
    if count < table.shape[1]:
        table = np.partition(table, table.shape[1] - count, axis=1)[:, table.shape[1] - count :]
    return np.sort(table, axis=1)[:, ::-1]
