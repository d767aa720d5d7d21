"""The hardest keys of every query: candidates above a likely limit first, then the choice, exact down to its ties.

A query is a row of one side, its keys are the rows of the other. Everything is a comparison of whole numbers, so the
lists are the same on every device and for every size of tile.
"""

from collections.abc import Iterator

import numpy as np

from gcbs_cli.data.grid import Grid
from gcbs_cli.products.operations import EVERYTHING, Backend, Entries, Limits, ProgressCallback, Tile, cut
from gcbs_cli.system.arrays import Array, Int32s, Ints, equal_rows
from gcbs_cli.system.compiled import compiled
from gcbs_cli.system.randomness import Stream
from gcbs_cli.system.threads import in_parts

SAMPLE_KEYS = 2048
SAMPLE_SHARE = 1 / 64
"""Keys to sample where that is more: the smaller the share, the more keys lie above the rank that is safe."""
ENTRIES_AT_ONCE = 1 << 22
"""Products with all keys that one thread holds at a time."""
LOW_BITS = (1 << 32) - 1
NO_KEY = np.iinfo(np.int64).min


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
        sides: tuple[Array, Array] = (grid.y, grid.x) if side else (grid.x, grid.y)
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
            draws = Stream.LIKELY_LIMITS.generator(seed + self._side)
            chosen = np.sort(draws.choice(len(self._keys), size, replace=False))
            loaded, offsets = backend.load(self._queries, self._keys[chosen]), self._offsets[chosen]
            height, width = backend.tile_shape
            tiles = cut(len(likely), size, max(1, min(height, height * width // size)), size)

            def limits_of(tile: Tile) -> Array:
                return backend.of_rank(backend.product(loaded, tile), rank, offsets)

            for tile, numbers in backend.run(tiles, limits_of):
                likely[tile.rows] = numbers
        return Limits(-self._offsets, likely) if self._side else Limits(likely, -self._offsets)

    def heaps(self, queries: int) -> Ints:
        """(n, count) empty heaps of ranked keys, one for each query."""
        return np.full((queries, self._count), NO_KEY)

    def offer(self, heaps: Ints, candidates: Entries, start: int = 0) -> None:
        """Let entries above the likely limits into the heaps of their queries, the first of which is `start`."""
        queries, keys = candidates.rows, candidates.cols
        if self._side:
            queries, keys = keys, queries
        ranks = _ranks(candidates.values + self._offsets[keys], keys)
        if self._skip_own:
            ranks[queries == keys] = NO_KEY
        keep_largest(heaps, queries - np.int32(start), ranks)

    def lists(self, heaps: Ints, start: int = 0) -> Int32s:
        """(n, count) the keys of each query from its heap, which it sorts, once all its candidates were offered.

        The hardest come first, equal ones by rising index, of which the lowest are taken.
        """
        lists = _hardest_first(heaps)
        short = np.flatnonzero(heaps[:, 0] == NO_KEY)  # sorted, a heap with a free place begins with it
        lists[short] = self.of_few(short + start)
        return lists

    def of_few(self, queries: Ints) -> Int32s:
        """(n, count) the lists of any queries, by products with all keys: once for those that are equal."""
        first, contents = equal_rows(self._queries[queries])
        rows, width = queries[first], self._count + self._skip_own
        chosen = np.empty((len(rows), width), np.int32)

        def fill(start: int, stop: int) -> None:
            product = self._queries[rows[start:stop]].astype(np.float32) @ self._keys.astype(np.float32).T
            ranks = _ranks(product.astype(np.int32) + self._offsets, np.arange(len(self._keys), dtype=np.int32))
            chosen[start:stop] = _hardest_first(np.partition(ranks, -width, axis=1)[:, -width:])

        in_parts(len(rows), max(1, ENTRIES_AT_ONCE // len(self._keys)), fill)
        lists = chosen[contents]
        if not self._skip_own:
            return lists
        others = lists != queries[:, None]
        others[:, -1] &= ~others.all(axis=1)  # without its own key among them, a query has all but the last
        return lists[others].reshape(-1, self._count)


def lists_by_rows(
    grid: Grid,
    count: int,
    backend: Backend,
    *,
    seed: int = 0,
    skip_own: bool = True,
    progress: ProgressCallback | None = None,
) -> Iterator[tuple[slice, Int32s]]:
    """(n, count) the hardest columns of n rows by their whole similarity, some rows after the others, in one pass.

    Memory: 8 bytes a place on the lists of one row of tiles.
    """
    search = TopSearch(grid, 0, count, offsets=True, skip_own=skip_own)
    limits, loaded = search.likely_limits(backend, seed), backend.load(grid.x, grid.y)
    tiles = backend.tiles(len(grid.x), len(grid.y))
    heaps = search.heaps(tiles[0].height)
    for tile, (candidates,) in backend.run(tiles, lambda tile: backend.scan(loaded, tile, [limits]), progress):
        search.offer(heaps, candidates, tile.rows.start)
        if tile.cols.stop == len(grid.y):
            yield tile.rows, search.lists(heaps[: tile.height], tile.rows.start)
            heaps[:] = NO_KEY


def _ranks(values: Int32s, keys: Int32s) -> Ints:
    """One number for value and key: the larger the harder, and of equal values the lower key first."""
    return (values.astype(np.int64) << 32) | (LOW_BITS - keys.astype(np.int64))


def _hardest_first(ranks: Ints) -> Int32s:
    """The keys of each row of ranks, which it sorts."""
    ranks.sort(axis=1)
    return (LOW_BITS - (ranks[:, ::-1] & LOW_BITS)).astype(np.int32)


@compiled
def keep_largest(heaps: Array, indices: Int32s, values: Array) -> None:
    """Let each value into the heap of its index, a row of `heaps`, where it exceeds the least one there, which goes.

    The root is written once, with its final value, so that other threads may read it meanwhile.
    """
    count = heaps.shape[1]
    for number in range(len(indices)):
        heap, value = heaps[indices[number]], values[number]
        if value <= heap[0]:
            continue
        place, child = 0, 1
        while child < count:
            if child + 1 < count and heap[child + 1] < heap[child]:
                child += 1
            if heap[child] >= value:
                break
            heap[place] = heap[child]
            place, child = child, 2 * child + 1
        heap[place] = value
