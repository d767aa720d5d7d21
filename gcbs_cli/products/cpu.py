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
from gcbs_cli.products.tiles import DEFAULT_TILE_COLS, DEFAULT_TILE_ROWS, Tile
from gcbs_cli.system.limits import available_cpus

STRIP_ROWS = 64
"""Rows of products that are compared at once: they and their limits stay in a core's cache."""


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
        return [self._above(loaded, product, tile, each) for each in limits]

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

    def _above(self, loaded: LoadedSides, product: NDArray[np.float32], tile: Tile, limits: Limits) -> Entries:
        row, col = limits.row[tile.rows].astype(np.float32)[:, None], limits.col[tile.cols].astype(np.float32)
        flags = self._scratch("flags", product.size, np.bool_).reshape(product.shape)
        strip = self._scratch("limits", STRIP_ROWS * product.shape[1], np.float32).reshape(STRIP_ROWS, -1)
        for start in range(0, len(product), STRIP_ROWS):
            some = slice(start, start + STRIP_ROWS)
            height = len(product[some])
            np.greater(product[some], np.add(row[some], col, out=strip[:height]), out=flags[some])
        places = np.flatnonzero(flags)
        rows, cols = (each.astype(np.int32) for each in np.divmod(places, product.shape[1]))
        values: NDArray[Any] = product.reshape(-1)[places].astype(_kind(loaded), copy=False)
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
