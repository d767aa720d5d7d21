"""Collect the hardest columns of each row (or rows of each column) while tiles go by."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.similarity.backend import Backend
from gcbs_cli.similarity.tiles import Tile, cut, run_tiles

SAMPLE_COLUMNS = 2048
ROWS_AT_ONCE = 4096
EVERYTHING = -2.0
"""Below every similarity of unit rows: a threshold that lets all entries through."""


def likely_thresholds(
    queries: NDArray[np.float32], keys: NDArray[np.float32], count: int, backend: Backend, seed: int
) -> NDArray[np.float32]:
    """(N,) for each query a number that its `count` hardest keys almost surely exceed, and few others.

    From each query's products with a random sample of the keys: the rank at which `count` keys are expected, plus three
    standard deviations. Queries for which it fails are seen by `HardestCollector.finish`, which does them in full.
    """
    rows = len(queries)
    size = min(len(keys), SAMPLE_COLUMNS)
    expected = count * size / len(keys)
    rank = int(expected + 3.0 * np.sqrt(expected) + 3.0)
    if 2 * rank > size:
        return np.full(rows, EVERYTHING, np.float32)
    chosen = np.sort(np.random.default_rng([seed, 0x4A2D]).choice(len(keys), size, replace=False))
    left, right = backend.load(queries), backend.load(keys[chosen])
    tiles = cut(rows, size, backend.tile_shape[0], size)

    def work(tile: Tile) -> NDArray[np.float32]:
        return backend.row_threshold(backend.product(left, right, tile.rows, tile.cols), rank)

    return np.concatenate([part for _, part in run_tiles(backend, tiles, work, whole_rows=True)])


@dataclass
class HardestCollector:
    """Gathers (index, value) candidates above each index's threshold and keeps the `count` largest of each index."""

    queries: NDArray[np.float32]
    keys: NDArray[np.float32]
    count: int

    def __post_init__(self) -> None:
        self._indices: list[NDArray[np.int32]] = []
        self._values: list[NDArray[np.float32]] = []

    def add(self, indices: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        """Take candidates of one tile: the query's index and the similarity, own positives left out."""
        self._indices.append(indices.astype(np.int32))
        self._values.append(values)

    def finish(self) -> NDArray[np.float32]:
        """(N, count) the largest similarities of each query to other rows' keys, falling."""
        from scipy.sparse import csr_array

        rows = len(self.queries)
        values, indices = np.concatenate(self._values), np.concatenate(self._indices)
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
