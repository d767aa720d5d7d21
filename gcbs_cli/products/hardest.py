"""Collect the hardest columns of each row (or rows of each column) while tiles go by."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.products.backend import Backend
from gcbs_cli.products.tiles import Tile, cut, run_tiles

SAMPLE_COLUMNS = 2048
SAMPLE_SHARE = 1 / 64
"""Of the keys, where that is more: the smaller the share, the more keys lie above the rank that is safe."""
ROWS_AT_ONCE = 4096
EVERYTHING = -2.0
"""Below every similarity of unit rows: a threshold that lets all entries through."""


def likely_candidates(count: int, keys: int) -> int:
    """How many keys of a query are expected above its likely threshold."""
    size, rank = sample_rank(count, keys)
    return keys if 2 * rank > size else rank * keys // size


def sample_rank(count: int, keys: int) -> tuple[int, int]:
    """How many keys are drawn, and the rank among these that `count` of all keys almost surely exceed."""
    size = min(keys, max(SAMPLE_COLUMNS, int(SAMPLE_SHARE * keys)))
    expected = count * size / keys
    return size, int(expected + 3.0 * np.sqrt(expected) + 3.0)


def likely_thresholds(
    queries: NDArray[np.float32],
    keys: NDArray[np.float32],
    count: int,
    backend: Backend,
    seed: int,
    *,
    reach: float | None = None,
) -> NDArray[np.float32]:
    """(N,) for each query a number that its `count` hardest keys almost surely exceed, and few others.

    From each query's products with a random sample of the keys: the rank at which `count` keys are expected, plus three
    standard deviations. Queries for which it fails are seen by `HardestCollector.finish`, which does them in full.
    `reach`: infinity for queries whose largest product in the sample lies no further than this above that number; what
    lets other keys through is rounding alone, and there may be any number of them.
    """
    rows = len(queries)
    size, rank = sample_rank(count, len(keys))
    if 2 * rank > size:
        return np.full(rows, EVERYTHING, np.float32)
    chosen = np.sort(np.random.default_rng([seed, 0x4A2D]).choice(len(keys), size, replace=False))
    left, right = backend.load(queries), backend.load(keys[chosen])
    height, width = backend.tile_shape
    tiles = cut(rows, size, max(1, min(height, height * width // size)), size)

    def work(tile: Tile) -> NDArray[np.float32]:
        product = backend.product(left, right, tile.rows, tile.cols)
        limits = backend.row_threshold(product, rank)
        if reach is not None:
            limits = np.where(backend.row_threshold(product, 1) <= limits + reach, np.float32(np.inf), limits)
        return limits

    return np.concatenate([part for _, part in run_tiles(backend, tiles, work, whole_rows=True)])


@dataclass(frozen=True)
class QueryValues:
    """Some entries by their query alone: (n,) int32 which query, (n,) float32 the similarity."""

    queries: NDArray[np.int32]
    values: NDArray[np.float32]


@dataclass
class HardestCollector:
    """Gathers (index, value) candidates above each index's threshold and keeps the `count` largest of each index."""

    queries: NDArray[np.float32]
    keys: NDArray[np.float32]
    count: int

    def __post_init__(self) -> None:
        self._parts: list[QueryValues] = []

    def add(self, candidates: QueryValues) -> None:
        """Take candidates of one tile, own positives left out."""
        self._parts.append(candidates)

    def finish(self) -> NDArray[np.float32]:
        """(N, count) the largest similarities of each query to other rows' keys, falling."""
        from scipy.sparse import csr_array

        rows = len(self.queries)
        values = np.concatenate([part.values for part in self._parts])
        indices = np.concatenate([part.queries for part in self._parts])
        self._parts.clear()
        # One long sparse row turned into columns is a counting sort by index.
        grouped = csr_array((values, indices, np.array([0, len(values)])), shape=(1, rows)).tocsc()
        best = np.empty((rows, self.count), np.float32)
        for start in range(0, rows, ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, rows)
            best[start:stop] = self._largest(grouped.indptr[start : stop + 1], grouped.data)
        short = np.flatnonzero(np.diff(grouped.indptr) < min(self.count, rows - 1))
        for start in range(0, len(short), 256):
            best[short[start : start + 256]] = self._in_full(short[start : start + 256])
        return best

    def _largest(self, bounds: NDArray[np.int32], values: NDArray[np.float32]) -> NDArray[np.float32]:
        counts = np.diff(bounds)
        width = max(int(counts.max()), self.count)
        table = np.full((len(counts), width), -np.inf, np.float32)
        table[np.arange(width) < counts[:, None]] = values[bounds[0] : bounds[-1]]
        return _falling(table, self.count)

    def _in_full(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        table = self.queries[rows] @ self.keys.T
        table[np.arange(len(rows)), rows] = -np.inf
        if table.shape[1] < self.count:
            table = np.pad(table, ((0, 0), (0, self.count - table.shape[1])), constant_values=-np.inf)
        return _falling(table, self.count)


def _falling(table: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    width = table.shape[1]
    if count < width:
        table = np.partition(table, width - count, axis=1)[:, width - count :]
    return np.sort(table, axis=1)[:, ::-1]
