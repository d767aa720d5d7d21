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
from gcbs_cli.products.tiles import Progress, Tile, cut, run_tiles, tiles_for
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


@dataclass(frozen=True)
class _Question:
    """The `count` hardest keys (M, D) of queries (N, D), by products plus `offsets` (M,), `skip_own`: but i of i."""

    queries: NDArray[Any]
    keys: NDArray[Any]
    offsets: NDArray[np.int32]
    count: int
    skip_own: bool

    def in_full(self, queries: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n, count) ranks from products with all keys. Queries that are equal have the same, but for their own."""
        if len(queries) == 0:
            return np.empty((0, self.count), np.int64)
        first, contents = equal_rows(self.queries[queries])
        rows, width = queries[first], self.count + self.skip_own
        chosen = np.empty((len(rows), width), np.int64)

        def fill(start: int, stop: int) -> None:
            product = self.queries[rows[start:stop]].astype(np.float32) @ self.keys.astype(np.float32).T
            numbers = product.astype(np.int32) + self.offsets
            chosen[start:stop] = _largest(_ranks(numbers, np.arange(len(self.keys), dtype=np.int32)), width)

        in_parts(len(rows), max(1, ENTRIES_AT_ONCE // len(self.keys)), fill)
        wanted = chosen[contents]
        if not self.skip_own:
            return wanted
        apart = _keys_of(wanted) != queries[:, None]
        apart[:, -1] &= ~apart.all(axis=1)  # without its own key among them, a query has all but the last
        return wanted[apart].reshape(-1, self.count)


def _question(grid: Grid, side: int, count: int, offsets: bool, skip_own: bool) -> _Question:
    sides = (grid.x, grid.y, grid.y_offsets), (grid.y, grid.x, grid.x_offsets)
    queries, keys, of_keys = sides[side]
    return _Question(
        queries, keys, of_keys if offsets else np.zeros_like(of_keys), min(count, len(keys) - skip_own), skip_own
    )


def hardest_of(grid: Grid, side: int, queries: NDArray[np.int64], count: int) -> NDArray[np.int32]:
    """(n, count) the hardest columns of a few rows (side 0), or rows of a few columns (side 1), as plans list them."""
    return _keys_of(_question(grid, side, count, False, True).in_full(queries))


class TopSearch:
    """Gathers candidates of one side while a pass goes by, and picks the hardest.

    `side`: 0 for columns of each row, 1 for rows of each column; `offsets`: whether keys compare by their whole
    similarity, or without what the mean of the queries adds to it, which makes some keys hard for every query;
    `skip_own`: leaves key i out of the list of query i.
    """

    def __init__(
        self,
        grid: Grid,
        side: int,
        count: int,
        backend: Backend,
        seed: int,
        *,
        offsets: bool = False,
        skip_own: bool = True,
    ) -> None:
        self._side = side
        self._asked = asked = _question(grid, side, count, offsets, skip_own)
        likely = _likely_limits(asked, backend, seed + side)
        self.limits = Limits(likely, -asked.offsets) if side == 0 else Limits(-asked.offsets, likely)
        """What candidates are above; each query has enough of them, almost surely."""
        self._parts: list[Entries] = []

    def add(self, found: Entries) -> None:
        """Take the entries of a tile that are above `limits`."""
        self._parts.append(found.chosen(found.rows != found.cols) if self._asked.skip_own else found)

    def lists(self, start: int, stop: int) -> TopLists:
        """The lists of these queries, once all their candidates are there; lets go of the candidates."""
        asked = self._asked
        ends = [(part.rows, part.cols)[:: 1 - 2 * self._side] for part in self._parts]
        queries = np.concatenate([own for own, _ in ends]) - np.int32(start)
        keys = np.concatenate([other for _, other in ends])
        values = np.concatenate([part.values for part in self._parts])
        self._parts.clear()
        places, starts = grouped(queries, stop - start)
        ranks = _ranks(values + asked.offsets[keys], keys)[places]
        chosen = np.empty((stop - start, asked.count), np.int64)
        counts = np.diff(starts)

        def choose(first: int, last: int) -> None:
            width = max(int(counts[first:last].max()), asked.count)
            table = np.full((last - first, width), NO_KEY)
            table[np.arange(width) < counts[first:last, None]] = ranks[starts[first] : starts[last]]
            chosen[first:last] = _largest(table, asked.count)

        in_parts(len(chosen), QUERIES_AT_ONCE, choose)
        short = np.flatnonzero(counts < asked.count)
        chosen[short] = asked.in_full(short + start)
        return TopLists(_keys_of(chosen), (chosen >> 32).astype(np.int32))


def _likely_limits(asked: _Question, backend: Backend, seed: int) -> NDArray[np.int32]:
    """(N,) for each query a number that its `count` hardest keys almost surely exceed, and few others.

    From each query's products with a random sample of the keys: the rank at which `count` keys are expected, plus three
    standard deviations. Queries for which it fails are done in full later.
    """
    size, rank = sample_rank(asked.count, len(asked.keys))
    if 2 * rank > size:
        return np.full(len(asked.queries), EVERYTHING, np.int32)
    chosen = np.sort(np.random.default_rng([seed, 0x4A2D]).choice(len(asked.keys), size, replace=False))
    loaded, offsets = backend.load(asked.queries, asked.keys[chosen]), asked.offsets[chosen]
    height, width = backend.tile_shape
    tiles = cut(len(asked.queries), size, max(1, min(height, height * width // size)), size)

    def limits_of(tile: Tile) -> NDArray[Any]:
        return backend.kth(loaded, tile.rows, rank, offsets)

    return np.concatenate([part for _, part in run_tiles(backend, tiles, limits_of, whole_rows=True)])


def lists_by_rows(
    grid: Grid,
    count: int,
    backend: Backend,
    *,
    seed: int = 0,
    offsets: bool = True,
    skip_own: bool = True,
    tile_rows: int | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[slice, TopLists]]:
    """The hardest columns of each row, for some rows after the others; one pass over all products.

    Memory: the candidates of one row of tiles.
    """
    search = TopSearch(grid, 0, count, backend, seed, offsets=offsets, skip_own=skip_own)
    loaded = backend.load(grid.x, grid.y)
    tiles = tiles_for(backend, len(grid.x), len(grid.y), tile_rows)

    def candidates(tile: Tile) -> Entries:
        return backend.scan(loaded, tile, [search.limits])[0]

    start = seen = 0
    for tile, found in run_tiles(backend, tiles, candidates, progress):
        search.add(found)
        seen += tile.entries
        # A tile that did not fit comes as its parts; the rows are complete when all their entries have been seen.
        if seen == (tile.rows.stop - start) * len(grid.y):
            yield slice(start, tile.rows.stop), search.lists(start, tile.rows.stop)
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
