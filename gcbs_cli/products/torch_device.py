"""The operations on torch devices, one or several: products by the vendor's library, the rest by torch's own functions.

Every worker thread owns one of the devices and takes the next tile when it is free.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gcbs_cli.products.operations import Backend, Entries, Limits
from gcbs_cli.products.tiles import Tile
from gcbs_cli.system.threads import OwnedByThreads, all_at_once

GPU_TILE = (8192, 16384)
"""Half a gigabyte of products: enough that a GPU is filled and rarely waits for the host."""
LEAST_INT_ROWS, INT_MULTIPLE = 17, 8
"""`torch._int_mm` takes more than 16 rows, and multiples of 8 columns and coordinates."""

Sides = list[tuple[torch.Tensor, torch.Tensor]]
"""Both sides on each device."""


@contextmanager
def without_tf32() -> Iterator[None]:
    """Within it float32 products are float32 products, whatever this process has allowed before."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class TorchBackend(Backend):
    """Tiles on torch devices; what comes back to the host is as small as the answer."""

    memory_errors = (torch.OutOfMemoryError,)

    def __init__(self, devices: Sequence[str]) -> None:
        """`devices`: their names, such as cuda:0; the first does what is not dealt to the threads."""
        self.devices = tuple(devices)
        self.workers = len(devices)
        self.name = ",".join([devices[0], *(device.removeprefix("cuda:") for device in devices[1:])])
        if devices[0].startswith("cuda"):
            self.tile_shape = GPU_TILE
        self._owned = OwnedByThreads(self.devices)

    def free_memory(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def running(self) -> AbstractContextManager[None]:
        return without_tf32()

    def load(self, left: NDArray[Any], right: NDArray[Any]) -> Sides:
        """All copies are under way at once."""
        first, second = (torch.from_numpy(np.ascontiguousarray(side)) for side in (left, right))
        return all_at_once(self.devices, lambda device: (first.to(device), second.to(device)))

    def product(self, loaded: Sides, tile: Tile) -> torch.Tensor:
        """(r, c) int32 of the rows of a grid of bytes, else float32."""
        left, right = loaded[self._owned.place]
        rows, cols = left[tile.rows], right[tile.cols]
        whole = len(cols) % INT_MULTIPLE == rows.shape[1] % INT_MULTIPLE == 0
        if rows.dtype == torch.int8 and whole and len(rows) >= LEAST_INT_ROWS:
            return torch._int_mm(rows, cols.T)
        return rows.float() @ cols.float().T

    def above(self, product: torch.Tensor, tile: Tile, limits: Limits) -> Entries:
        rows, cols = torch.nonzero(exceeding(product, tile, limits), as_tuple=True)
        values = _to_host(product[rows, cols]).astype(limits.row.dtype, copy=False)
        return Entries(_to_host((rows + tile.rows.start).int()), _to_host((cols + tile.cols.start).int()), values)

    def of_rank(self, product: torch.Tensor, rank: int, offsets: NDArray[np.int32] | None = None) -> NDArray[Any]:
        if offsets is not None:
            product = product + torch.from_numpy(offsets).to(product.device)
        return _to_host(torch.topk(product, rank, dim=1).values[:, -1])

    def log_sums(self, product: torch.Tensor, inverse_temperature: float) -> list[NDArray[np.float64]]:
        return [_log_sums(product, inverse_temperature, axis) for axis in (1, 0)]


def exceeding(product: torch.Tensor, tile: Tile, limits: Limits) -> torch.Tensor:
    """(r, c) which products of a tile exceed the sum of the limits of their row and column."""
    row, col = (torch.from_numpy(part).to(product.device) for part in (limits.row[tile.rows], limits.col[tile.cols]))
    return product - row[:, None] > col


def _log_sums(product: torch.Tensor, inverse_temperature: float, axis: int) -> NDArray[np.float64]:
    largest = product.amax(dim=axis, keepdim=True).nan_to_num(neginf=0.0)
    sums = ((product - largest) * inverse_temperature).exp().sum(dim=axis, dtype=torch.float64).log()
    return _to_host(sums + inverse_temperature * largest.reshape(-1).double())


def _to_host(tensor: torch.Tensor) -> NDArray[Any]:
    found: NDArray[Any] = tensor.cpu().numpy()
    return found
