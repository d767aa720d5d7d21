"""The operations on torch devices, one or several: products by the vendor's library, the rest by torch's own functions.

Every worker thread owns one of the devices and takes the next tile when it is free.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gcbs_cli.products.operations import Entries, Limits
from gcbs_cli.products.tiles import DEFAULT_TILE_COLS, DEFAULT_TILE_ROWS, LEAST_TILE, Tile
from gcbs_cli.system.errors import OutOfDeviceMemory
from gcbs_cli.system.threads import OwnedByThreads, all_at_once

GPU_TILE = (8192, 16384)
"""Half a gigabyte of products: enough that a GPU is filled and rarely waits for the host."""
LEAST_INT_ROWS, INT_MULTIPLE = 32, 8
"""`torch._int_mm` takes more than 16 rows, and multiples of 8 columns and coordinates."""


@dataclass(frozen=True)
class LoadedSides:
    """Two sides where one device multiplies them: on it, or on the host where its memory does not hold them."""

    left: torch.Tensor
    right: torch.Tensor
    device: torch.device

    def mirrored(self) -> "LoadedSides":
        """The sides exchanged."""
        return LoadedSides(self.right, self.left, self.device)

    def product(self, rows: slice, cols: slice) -> torch.Tensor:
        """(r, c) exact int32 of the rows of a grid, or float32."""
        left, right = self.left[rows].to(self.device), self.right[cols].to(self.device)
        if left.dtype == torch.int8:
            return _int_product(left, right)
        product = left.float() @ right.float().T
        return product.int() if left.dtype == torch.int16 else product


def _int_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    rows, cols = len(left), len(right)
    left = _padded(left, max(LEAST_INT_ROWS - rows, 0))
    return torch._int_mm(left, _padded(right, -cols % INT_MULTIPLE).T)[:rows, :cols]


def _padded(numbers: torch.Tensor, rows: int) -> torch.Tensor:
    """So many rows of zeros more, and coordinates up to a multiple of 8."""
    return torch.nn.functional.pad(numbers, (0, -numbers.shape[1] % INT_MULTIPLE, 0, rows))


@contextmanager
def without_tf32() -> Iterator[None]:
    """Within it float32 products are float32 products, whatever this process has allowed before."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class TorchBackend:
    """Tiles on torch devices; what comes back to the host is as small as the answer."""

    least_tile = LEAST_TILE
    memory_errors: tuple[type[Exception], ...] = (torch.OutOfMemoryError,)

    def __init__(self, devices: Sequence[str]) -> None:
        """`devices`: their names, such as cuda:0; the first does what is not dealt to the threads."""
        self.devices: Sequence[str] = tuple(devices)
        self.workers = len(devices)
        self.name = ",".join([devices[0], *(device.removeprefix("cuda:") for device in devices[1:])])
        self.tile_shape = GPU_TILE if devices[0].startswith("cuda") else (DEFAULT_TILE_ROWS, DEFAULT_TILE_COLS)
        self._owned = OwnedByThreads([torch.device(device) for device in devices])

    def free_memory(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def running(self) -> AbstractContextManager[None]:
        return without_tf32()

    def load(self, left: NDArray[Any], right: NDArray[Any]) -> list[LoadedSides]:
        """For each device; all copies are under way at once."""
        sides = [torch.from_numpy(np.ascontiguousarray(side)) for side in (left, right)]

        def on_device(device: torch.device) -> LoadedSides:
            try:
                first = sides[0].to(device)
                return LoadedSides(first, first if right is left else sides[1].to(device), device)
            except torch.OutOfMemoryError:
                pass  # only after this has the error let go of what was copied
            self.free_memory()
            return LoadedSides(sides[0], sides[1], device)

        return all_at_once(self._owned.things, on_device)

    def mine(self, loaded: list[LoadedSides]) -> LoadedSides:
        """The sides on this thread's device."""
        return loaded[self._owned.place]

    def product(self, loaded: list[LoadedSides], rows: slice, cols: slice) -> torch.Tensor:
        return self.mine(loaded).product(rows, cols)

    def scan(self, loaded: list[LoadedSides], tile: Tile, limits: Sequence[Limits]) -> list[Entries]:
        product = self.product(loaded, tile.rows, tile.cols)
        return [self.above(product, tile, each) for each in limits]

    def above(self, product: torch.Tensor, tile: Tile, limits: Limits) -> Entries:
        rows, cols = torch.nonzero(exceeding(product, tile, limits), as_tuple=True)
        ends = ((rows + tile.rows.start).int(), (cols + tile.cols.start).int())
        return Entries(_to_host(ends[0]), _to_host(ends[1]), _to_host(product[rows, cols]))

    def kth(
        self, loaded: list[LoadedSides], rows: slice, rank: int, col_offsets: NDArray[np.int32] | None = None
    ) -> NDArray[Any]:
        product = self.product(loaded, rows, slice(0, len(loaded[0].right)))
        if col_offsets is not None:
            product = product + torch.from_numpy(col_offsets).to(product.device)
        return self.of_rank(product, rank)

    def of_rank(self, product: torch.Tensor, rank: int) -> NDArray[Any]:
        return _to_host(torch.topk(product, rank, dim=1).values[:, -1])

    def largest(self, product: torch.Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return _to_host(product.amax(dim=1)), _to_host(product.amax(dim=0))

    def hide_equal(self, product: torch.Tensor, row_ids: NDArray[np.int32], col_ids: NDArray[np.int32]) -> None:
        rows, cols = (torch.from_numpy(ids).to(product.device) for ids in (row_ids, col_ids))
        product[rows[:, None] == cols] = -torch.inf

    def log_sums(
        self, product: torch.Tensor, inverse_temperature: float, *, columns: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        rows = _log_sums(product, inverse_temperature, 1)
        return rows, _log_sums(product, inverse_temperature, 0) if columns else None


def exceeding(product: torch.Tensor, tile: Tile, limits: Limits) -> torch.Tensor:
    """(r, c) which products of a tile exceed the sum of the limits of their row and column."""
    row, col = (torch.from_numpy(part).to(product.device) for part in (limits.row[tile.rows], limits.col[tile.cols]))
    return product - row[:, None] > col


def _log_sums(product: torch.Tensor, inverse_temperature: float, axis: int) -> NDArray[np.float64]:
    largest = product.amax(dim=axis, keepdim=True)
    shift = torch.where(torch.isfinite(largest), largest, torch.zeros_like(largest))
    sums = ((product - shift) * inverse_temperature).exp().sum(dim=axis, dtype=torch.float64).log()
    return _to_host(sums + inverse_temperature * shift.reshape(-1).double())


def _to_host(tensor: torch.Tensor) -> NDArray[Any]:
    found: NDArray[Any] = tensor.cpu().numpy()
    return found


@contextmanager
def naming_what_does_not_fit(what: str, instead: str) -> Iterator[None]:
    """Within it, running out of the device's memory raises OutOfDeviceMemory with these words."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfDeviceMemory(what, instead) from error
