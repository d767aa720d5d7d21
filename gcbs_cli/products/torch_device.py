"""The operations on torch devices, one or several: products by the vendor's library, the rest by torch's own functions.

Every worker thread owns one of the devices and takes the next tile when it is free. The memory of a tile is that of the
one before, which torch keeps.

A grid's rows can be held in several types with the same whole numbers as products: float16 holds all up to 2,048, more
than a grid has; the product of two is below 2²², and every partial sum, in whatever order, below 2²⁴ (Cauchy and
Schwarz; `data/grid.py`), which int32 and float32 sums hold. So the type is the one that is quickest on the device.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from gcbs_cli.products.operations import Backend, Entries, Tile
from gcbs_cli.system.arrays import Array, Floats, Int32s
from gcbs_cli.system.threads import OwnedByThreads, in_order, in_parts

GPU_TILE = (16384, 16384)
"""A gigabyte of products: enough that a GPU is filled and rarely waits for the host."""
MULTIPLE = 32
"""Rows and coordinates are padded with zeros to multiples: only so are there quick products of small types."""
UPLOAD_BYTES = 1 << 25
TRIALS = 3
MULTIPLY: dict[torch.dtype, Callable[..., Tensor]] = {
    torch.float32: torch.mm,
    torch.float16: partial(torch.mm, out_dtype=torch.float32),
    torch.int8: torch._int_mm,
}
HELD_AS = {"int8": [*MULTIPLY], "int16": [torch.float32, torch.float16], "float32": [torch.float32]}
"""The product by the type in which a device holds rows; and by their type on the host, what that may be."""

Sides = list[tuple[Tensor, Tensor]]
"""Both sides on each device."""


class TorchBackend(Backend):
    """Tiles on torch devices; what comes back to the host is as small as the answer."""

    memory_errors = (torch.OutOfMemoryError,)

    def __init__(self, devices: Sequence[str]) -> None:
        """`devices`: their names, such as cuda:0; the first does what is not dealt to the threads."""
        self.devices, self.workers = devices, len(devices)
        self.name = ",".join([devices[0], *(device.removeprefix("cuda:") for device in devices[1:])])
        if devices[0].startswith("cuda"):
            self.tile_shape = GPU_TILE
        self.owned = OwnedByThreads(cycle(range(self.workers)))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within it float32 products are float32 products, whatever this process has allowed before."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            if before != "highest":  # else another thread may have set it, and sets it back
                torch.set_float32_matmul_precision(before)

    def load(self, left: Array, right: Array) -> Sides:
        """Rows with zeros after them, in the type whose products are quickest; all copies are under way at once."""
        some = self.tile_shape[0] // 2
        held = self._quickest(left[:some], right[:some])
        both = in_order(
            self.workers, self.devices, lambda device: (_put(left, held, device), _put(right, held, device))
        )
        return list(both)

    def _quickest(self, left: Array, right: Array) -> torch.dtype:
        """The type by the seconds of a product on the first device, of those that give the numbers of float32."""
        tile, seconds = Tile(slice(0, len(left)), slice(0, len(right))), dict[torch.dtype, float]()
        ways, expected = HELD_AS[left.dtype.name], None
        for held in ways if len(ways) > 1 else ():
            try:
                sides = _put(left, held, self.devices[0]), _put(right, held, self.devices[0])
                for _ in range(TRIALS):
                    began = perf_counter()
                    product = self.product([sides] * self.workers, tile)
                    product[-1, -1].item()  # waits for it
                    took = perf_counter() - began
            except (RuntimeError, TypeError):  # the device, or this version of torch, has no such product
                continue
            expected = product if expected is None else expected
            if torch.equal(product.float(), expected):
                seconds[held] = took
        return min(seconds, key=lambda held: seconds[held], default=torch.float32)

    def product(self, loaded: Sides, tile: Tile, sides: tuple[int, int] = (0, 1)) -> Tensor:
        """(r, c) int32 or float32; its rows lie a multiple of MULTIPLE apart."""
        left, right = (loaded[self.owned.mine][side] for side in sides)
        top, first = tile.rows.start, tile.cols.start
        high, wide = (-(-side // MULTIPLE) * MULTIPLE for side in (tile.height, tile.width))
        product = MULTIPLY[left.dtype](left[top : top + high], right[first : first + wide].T)
        return product[: tile.height, : tile.width]

    def listed(self, product: Tensor, tile: Tile, mask: Tensor) -> Entries:
        rows, cols = torch.nonzero(mask, as_tuple=True)
        values = _to_host(product[rows, cols])
        return Entries(_to_host((rows + tile.rows.start).int()), _to_host((cols + tile.cols.start).int()), values)

    def of_rank(self, product: Tensor, rank: int, offsets: Int32s | None = None) -> Array:
        if offsets is not None:
            product = product + self.array(offsets)
        return _to_host(torch.topk(product, rank, dim=1).values[:, -1])

    def array(self, values: Array) -> Tensor:
        return torch.from_numpy(values).to(self.devices[self.owned.mine])

    def log_sums(
        self, product: Tensor, inverse_temperature: float, mask: Tensor | None = None
    ) -> tuple[Floats, Floats]:
        tables = [product] if mask is None else [product, product.masked_fill(mask, -torch.inf)]
        by_row, by_col = (
            np.stack([_to_host(_log_sums(table, inverse_temperature, axis)) for table in tables]) for axis in (1, 0)
        )
        return by_row, by_col


def _log_sums(product: Tensor, inverse_temperature: float, axis: int) -> Tensor:
    largest = product.amax(dim=axis, keepdim=True).nan_to_num(neginf=0.0)
    sums = (product - largest).mul_(inverse_temperature).exp_().sum(dim=axis, dtype=torch.float64).log()
    return sums + inverse_temperature * largest.reshape(-1).double()


def _put(side: Array, held: torch.dtype, device: str) -> Tensor:
    """(N + MULTIPLE, D) a side on a device, with zeros after its rows and coordinates; all cores copy."""
    count, dim = side.shape
    rows = torch.zeros((count + MULTIPLE, -(-dim // MULTIPLE) * MULTIPLE), dtype=held, device=device)

    def copy(start: int, stop: int) -> None:
        part = torch.from_numpy(np.ascontiguousarray(side[start:stop]))
        rows[start:stop, :dim] = (part.pin_memory() if rows.is_cuda else part).to(device, non_blocking=True)

    in_parts(count, max(1, UPLOAD_BYTES // (dim * side.itemsize)), copy)
    return rows


def _to_host(tensor: Tensor) -> Array:
    return np.asarray(tensor.cpu())
