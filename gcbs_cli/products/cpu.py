"""The operations on the CPU: products of bytes where the processor has them, else float32 products of whole numbers."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from gcbs_cli.products.operations import Backend, Entries, Limits, Tile
from gcbs_cli.system.arrays import Array, Bools, Float32s, Floats, Int32s
from gcbs_cli.system.limits import available_cpus

if TYPE_CHECKING:
    from gcbs_cli.products.byte_products import ByteProducts

ROWS_AT_ONCE = 64
"""Rows that are added at once: they stay in a core's cache, and their float32 sum is exact enough."""
SAFE_EXPONENT = 60.0
"""exp(±60) times a tile's width stays inside float32's range, so that no row maximum has to be subtracted."""


Sides = tuple[Array, Array, "ByteProducts | None"]
"""Two sides, and where they are multiplied as bytes, what that takes."""


class CpuBackend(Backend):
    """Tiles on the CPU, one BLAS or byte product a worker thread, into memory that the thread keeps."""

    name = "cpu"

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or available_cpus()
        self._memory = threading.local()

    @contextmanager
    def running(self) -> Iterator[None]:
        """One BLAS thread a worker."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1, user_api="blas"):
            yield

    def load(self, left: Array, right: Array) -> Sides:
        from gcbs_cli.products.byte_products import ByteProducts, can_multiply  # imports numba

        return left, right, ByteProducts(left, right) if can_multiply(left) else None

    def product(self, loaded: Sides, tile: Tile, sides: tuple[int, int] = (0, 1)) -> Float32s:
        arrays = loaded[:2]
        left = np.asarray(arrays[sides[0]][tile.rows], np.float32)
        right = np.asarray(arrays[sides[1]][tile.cols], np.float32)
        return np.matmul(left, right.T, out=self._scratch(f"product {sides}", (tile.height, tile.width)))

    def array(self, values: Array) -> Array:
        return values

    def scan(self, loaded: Sides, tile: Tile, limits: Sequence[Limits]) -> list[Entries]:
        if loaded[2] is None:
            return super().scan(loaded, tile, limits)
        listed = loaded[2].above(tile, limits, self._scratch("listed", (3, tile.entries), np.int32))
        return [listed.chosen(listed.values > each.row[listed.rows] + each.col[listed.cols]) for each in limits]

    def listed(self, product: Float32s, tile: Tile, mask: Bools) -> Entries:
        places = np.flatnonzero(mask)
        rows, cols = (each.astype(np.int32) for each in np.divmod(places, tile.width))
        return Entries(rows + np.int32(tile.rows.start), cols + np.int32(tile.cols.start), product.reshape(-1)[places])

    def of_rank(self, product: Float32s, rank: int, offsets: Int32s | None = None) -> Float32s:
        if rank == 1 and offsets is None:
            return product.max(axis=1)
        ranked, place = self._scratch("powers", product.shape), product.shape[1] - rank
        np.add(product, 0.0 if offsets is None else offsets.astype(np.float32), out=ranked)
        ranked.partition(place, axis=1)
        return ranked[:, place].copy()

    def log_sums(
        self, product: Float32s, inverse_temperature: float, mask: Bools | None = None
    ) -> tuple[Floats, Floats]:
        powers = self._scratch("powers", product.shape)
        masks = [None] if mask is None else [None, mask]
        if inverse_temperature > SAFE_EXPONENT:
            ends = [
                [_shifted_log_sums(product, inverse_temperature, each, axis, powers) for each in masks]
                for axis in (1, 0)
            ]
            return np.stack(ends[0]), np.stack(ends[1])
        np.multiply(product, np.float32(inverse_temperature), out=powers)
        np.exp(powers, out=powers)
        by_row, by_col = [], []
        for each in masks:
            if each is not None:
                np.copyto(powers, 0.0, where=each)
            by_row.append(_log_of_sums(powers, 1))
            by_col.append(_log_of_sums(powers, 0))
        return np.stack(by_row), np.stack(by_col)

    def _scratch(self, purpose: str, shape: tuple[int, ...], dtype: type = np.float32) -> Array:
        """Memory of this thread for one purpose, grown when needed: a fresh array a tile costs page faults."""
        size = int(np.prod(shape))
        memory = getattr(self._memory, purpose, None)
        if memory is None or memory.size < size:
            memory = np.empty(size, dtype)
            setattr(self._memory, purpose, memory)
        return memory[:size].reshape(shape)


def _log_of_sums(powers: Float32s, axis: int) -> Floats:
    """log Σ of rows (axis 1), which numpy adds in pairs, so that float32 will do, or of columns, added one by one."""
    if axis == 1:
        sums = powers.sum(axis=1).astype(np.float64)
    else:
        sums = np.zeros(powers.shape[1])
        for start in range(0, len(powers), ROWS_AT_ONCE):
            sums += powers[start : start + ROWS_AT_ONCE].sum(axis=0)
    with np.errstate(divide="ignore"):
        return np.log(sums)


def _shifted_log_sums(
    product: Float32s, inverse_temperature: float, mask: Bools | None, axis: int, powers: Float32s
) -> Floats:
    """log Σ exp along an axis with the largest exponent taken out first; powers: memory of the product's shape."""
    np.multiply(product, np.float32(inverse_temperature), out=powers)
    if mask is not None:
        np.copyto(powers, -np.inf, where=mask)
    largest = np.nan_to_num(powers.max(axis=axis, keepdims=True), neginf=0.0)
    np.subtract(powers, largest, out=powers)
    np.exp(powers, out=powers)
    return _log_of_sums(powers, axis) + largest.reshape(-1)
