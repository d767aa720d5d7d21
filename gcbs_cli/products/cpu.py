"""The operations on the CPU: products of bytes where the processor has them, else float32 products of whole numbers."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.products.byte_products import ByteProducts, can_multiply, room_for
from gcbs_cli.products.operations import Entries, Limits
from gcbs_cli.products.tiles import DEFAULT_TILE_COLS, DEFAULT_TILE_ROWS, LEAST_TILE, Tile
from gcbs_cli.system.limits import available_cpus

STRIP_ROWS = 64
"""Rows of products that are compared at once: they and their limits stay in a core's cache."""
SAFE_EXPONENT = 60.0
"""exp(±60) times a tile's width stays inside float32's range, so that no row maximum has to be subtracted."""


@dataclass(frozen=True)
class LoadedSides:
    """Two sides, and whether they are multiplied as bytes."""

    left: NDArray[Any]
    right: NDArray[Any]
    multiply_bytes: bool

    @cached_property
    def as_bytes(self) -> ByteProducts:
        """Ready to be multiplied as bytes."""
        return ByteProducts(self.left, self.right)


class CpuBackend:
    """Tiles on the CPU, one BLAS or byte product a worker thread, into memory that the thread keeps."""

    name = "cpu"
    devices: Sequence[str] = ("cpu",)
    tile_shape = (DEFAULT_TILE_ROWS, DEFAULT_TILE_COLS)
    least_tile = LEAST_TILE
    memory_errors: tuple[type[Exception], ...] = ()

    def __init__(self, workers: int | None = None, *, byte_products: bool = True) -> None:
        """`byte_products`: whether bytes are multiplied as bytes where the processor can."""
        self.workers = workers or available_cpus()
        self._byte_products = byte_products
        self._memory = threading.local()

    def free_memory(self) -> None:
        return None

    @contextmanager
    def running(self) -> Iterator[None]:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1, user_api="blas"):
            yield

    def load(self, left: NDArray[Any], right: NDArray[Any]) -> LoadedSides:
        left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
        return LoadedSides(left, right, self._byte_products and can_multiply(left))

    def scan(self, loaded: LoadedSides, tile: Tile, limits: Sequence[Limits]) -> list[Entries]:
        if loaded.multiply_bytes:
            room = self._scratch("room", 3 * room_for(tile), np.int32).reshape(3, -1)
            found = loaded.as_bytes.above(tile, limits, room)
            if len(limits) == 1:
                return [found]
            return [found.chosen(found.values > each.row[found.rows] + each.col[found.cols]) for each in limits]
        product = self.product(loaded, tile.rows, tile.cols)
        listed = [self.above(product, tile, each) for each in limits]
        return [Entries(each.rows, each.cols, each.values.astype(_kind(loaded), copy=False)) for each in listed]

    def kth(
        self, loaded: LoadedSides, rows: slice, rank: int, col_offsets: NDArray[np.int32] | None = None
    ) -> NDArray[Any]:
        product = self.product(loaded, rows, slice(0, len(loaded.right)))
        if col_offsets is not None:
            product += col_offsets.astype(np.float32)
        place = product.shape[1] - rank
        product.partition(place, axis=1)
        return product[:, place].astype(_kind(loaded))

    def product(self, loaded: LoadedSides, rows: slice, cols: slice) -> NDArray[np.float32]:
        """(r, c) products of a tile; valid until the same thread asks for the next one."""
        left = np.asarray(loaded.left[rows], np.float32)
        right = np.asarray(loaded.right[cols], np.float32)
        out = self._scratch("tile", len(left) * len(right), np.float32).reshape(len(left), len(right))
        return np.matmul(left, right.T, out=out)

    def of_rank(self, product: NDArray[np.float32], rank: int) -> NDArray[np.float32]:
        place = product.shape[1] - rank
        return np.partition(product, place, axis=1)[:, place].copy()

    def largest(self, product: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return product.max(axis=1), product.max(axis=0)

    def hide_equal(self, product: NDArray[np.float32], row_ids: NDArray[np.int32], col_ids: NDArray[np.int32]) -> None:
        product[row_ids[:, None] == col_ids] = -np.inf

    def log_sums(
        self, product: NDArray[np.float32], inverse_temperature: float, *, columns: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        powers = self._scratch("powers", product.size, np.float32).reshape(product.shape)
        if inverse_temperature <= SAFE_EXPONENT:
            np.multiply(product, np.float32(inverse_temperature), out=powers)
            np.exp(powers, out=powers)
            with np.errstate(divide="ignore"):
                return np.log(_sums(powers, 1)), np.log(_sums(powers, 0)) if columns else None
        rows = _shifted_log_sums(product, inverse_temperature, 1, powers)
        return rows, _shifted_log_sums(product, inverse_temperature, 0, powers) if columns else None

    def above(self, product: NDArray[np.float32], tile: Tile, limits: Limits) -> Entries:
        row, col = limits.row[tile.rows].astype(np.float32)[:, None], limits.col[tile.cols].astype(np.float32)
        flags = self._scratch("flags", product.size, np.bool_).reshape(product.shape)
        strip = self._scratch("limits", STRIP_ROWS * product.shape[1], np.float32).reshape(STRIP_ROWS, -1)
        for start in range(0, len(product), STRIP_ROWS):
            some = slice(start, start + STRIP_ROWS)
            height = len(product[some])
            np.greater(product[some], np.add(row[some], col, out=strip[:height]), out=flags[some])
        places = np.flatnonzero(flags)
        rows, cols = (each.astype(np.int32) for each in np.divmod(places, product.shape[1]))
        values = product.reshape(-1)[places]
        return Entries(rows + np.int32(tile.rows.start), cols + np.int32(tile.cols.start), values)

    def _scratch(self, purpose: str, size: int, dtype: type) -> NDArray[Any]:
        """Memory of this thread for one purpose, grown when needed: a fresh array a tile costs page faults."""
        held = getattr(self._memory, purpose, None)
        if held is None or held.size < size:
            held = np.empty(size, dtype)
            setattr(self._memory, purpose, held)
        return held[:size]


def _kind(loaded: LoadedSides) -> type:
    """Of values: int32 for the rows of a grid, whose float32 products are whole numbers."""
    return np.float32 if loaded.left.dtype == np.float32 else np.int32


def _shifted_log_sums(
    product: NDArray[np.float32], inverse_temperature: float, axis: int, powers: NDArray[np.float32]
) -> NDArray[np.float64]:
    """log Σ exp along an axis above the largest value there, which no temperature lets overflow. `powers`: scratch."""
    largest = product.max(axis=axis, keepdims=True)
    shift = np.where(np.isfinite(largest), largest, np.float32(0))
    np.subtract(product, shift, out=powers)
    np.multiply(powers, np.float32(inverse_temperature), out=powers)
    np.exp(powers, out=powers)
    with np.errstate(divide="ignore"):
        sums = np.log(_sums(powers, axis))
    return sums + inverse_temperature * shift.reshape(-1).astype(np.float64)


def _sums(powers: NDArray[np.float32], axis: int) -> NDArray[np.float64]:
    """Sums over an axis; numpy adds along rows in pairs, where float32 will do, and down columns one by one."""
    if axis == 1:
        return powers.sum(axis=1).astype(np.float64)
    total = np.zeros(powers.shape[1])
    for start in range(0, len(powers), STRIP_ROWS):
        total += powers[start : start + STRIP_ROWS].sum(axis=0)
    return total
