"""Tiles on the CPU: one numpy product a worker thread, into memory that the thread keeps."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.products.backend import (
    Array,
    Entries,
    EntryLimits,
    Finder,
    LimitedRows,
    Lister,
    float32_error,
    plain_finder,
)
from gcbs_cli.products.tiles import DEFAULT_TILE_COLS, DEFAULT_TILE_ROWS
from gcbs_cli.system.limits import available_cpus

SAFE_EXPONENT = 60.0
"""exp(±60) times a tile's width stays inside float32's range, so that no row maximum has to be subtracted."""
ADDED_AT_ONCE = 64
"""Rows that are added in float32, at an error of at most 64 roundings."""


class NumpyBackend:
    """float32 products by numpy's BLAS, comparisons and exponentials by numpy; float64 where sums are kept."""

    name = "cpu"
    devices: Sequence[str] = ("cpu",)
    tile_shape = (DEFAULT_TILE_ROWS, DEFAULT_TILE_COLS)
    memory_errors: tuple[type[Exception], ...] = ()

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or available_cpus()
        self._memory = threading.local()

    def free_memory(self) -> None:
        return None

    def load(self, rows: NDArray[Any]) -> Array:
        return np.ascontiguousarray(rows)

    def part(self, loaded: Array, rows: slice) -> Array:
        return loaded[rows]

    @contextmanager
    def running(self) -> Iterator[None]:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1, user_api="blas"):
            yield

    def product(self, x: Array, y: Array, rows: slice, cols: slice) -> NDArray[np.float32]:
        left, right = x[rows], y[cols]
        out = self._scratch("tile", len(left) * len(right), np.float32).reshape(len(left), len(right))
        return np.matmul(left, right.T, out=out)

    def error(self, dim: int) -> float:
        return float32_error(dim)

    def above(self, tile: NDArray[np.float32], threshold: float | NDArray[np.float32]) -> Entries:
        mask = self._scratch("mask", tile.size, np.bool_).reshape(tile.shape)
        np.greater(tile, np.asarray(threshold, np.float32), out=mask)
        flat = np.flatnonzero(mask)
        rows, cols = np.divmod(flat, tile.shape[1])
        return Entries(rows, cols, tile.reshape(-1)[flat])

    def finder(self, x: NDArray[np.float32], y: NDArray[np.float32], threshold: float) -> Finder:
        return plain_finder(self, x, y, threshold)

    def lister(self, limited: LimitedRows) -> Lister | None:
        return None

    def summariser(self, x: Array, y: Array, limits: EntryLimits, inverse_temperatures: list[float]) -> None:
        return None

    def take(self, tile: NDArray[np.float32], rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.float32]:
        return tile[rows, cols]

    def remove(self, tile: NDArray[np.float32], rows: NDArray[np.int64], cols: NDArray[np.int64]) -> None:
        tile[rows, cols] = -np.inf

    def log_sums(
        self, tile: NDArray[np.float32], inverse_temperature: float, *, columns: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        if inverse_temperature <= SAFE_EXPONENT:
            return self._plain_log_sums(tile, inverse_temperature, columns=columns)
        rows = self._shifted_log_sums(tile, inverse_temperature, axis=1)
        return rows, self._shifted_log_sums(tile, inverse_temperature, axis=0) if columns else None

    def row_threshold(self, tile: NDArray[np.float32], rank: int) -> NDArray[np.float32]:
        width = tile.shape[1]
        return np.partition(tile, width - rank, axis=1)[:, width - rank]

    def largest(self, tile: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return tile.max(axis=1), tile.max(axis=0)

    def _plain_log_sums(
        self, tile: NDArray[np.float32], inverse_temperature: float, *, columns: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        powers = self._scratch("powers", tile.size, np.float32).reshape(tile.shape)
        np.multiply(tile, np.float32(inverse_temperature), out=powers)
        np.exp(powers, out=powers)
        with np.errstate(divide="ignore"):
            rows = np.log(_sums(powers, 1))
            return rows, np.log(_sums(powers, 0)) if columns else None

    def _shifted_log_sums(
        self, tile: NDArray[np.float32], inverse_temperature: float, axis: int
    ) -> NDArray[np.float64]:
        largest = tile.max(axis=axis, keepdims=True)
        shift = np.where(np.isfinite(largest), largest, np.float32(0))
        powers = self._scratch("powers", tile.size, np.float32).reshape(tile.shape)
        np.subtract(tile, shift, out=powers)
        np.multiply(powers, np.float32(inverse_temperature), out=powers)
        np.exp(powers, out=powers)
        with np.errstate(divide="ignore"):
            sums = np.log(_sums(powers, axis))
        return sums + inverse_temperature * shift.reshape(-1).astype(np.float64)

    def _scratch(self, purpose: str, size: int, dtype: type) -> Array:
        """Memory of this thread for one purpose, grown when needed: a fresh array a tile costs page faults."""
        held = getattr(self._memory, purpose, None)
        if held is None or held.size < size:
            held = np.empty(size, dtype)
            setattr(self._memory, purpose, held)
        return held[:size]


def _sums(powers: NDArray[np.float32], axis: int) -> NDArray[np.float64]:
    """Sums over an axis; numpy adds along rows in pairs, where float32 will do, and down columns one by one."""
    if axis == 1:
        return powers.sum(axis=1).astype(np.float64)
    total = np.zeros(powers.shape[1])
    for start in range(0, len(powers), ADDED_AT_ONCE):
        total += powers[start : start + ADDED_AT_ONCE].sum(axis=0)
    return total
