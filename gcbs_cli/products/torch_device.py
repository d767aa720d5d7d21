"""The operations on torch devices, one or several: products by the vendor's library, the rest by torch's own functions.

Every worker thread owns one of the devices and takes the next tile when it is free. The memory of a tile is that of the
one before, which torch keeps.

The whole numbers of a grid are multiplied as float16 on a GPU: it holds all up to 2,048, more than a grid has; the
product of two is below 2²², and every partial sum, in whatever order, below 2²⁴ (Cauchy and Schwarz; `data/grid.py`),
which float32 sums hold.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle

import numpy as np
import torch
from torch import Tensor

from gcbs_cli.products.operations import Backend, Entries, Tile
from gcbs_cli.system.arrays import Array, Floats, Int32s
from gcbs_cli.system.threads import OwnedByThreads, in_order

GPU_TILE = (8192, 16384)
"""Half a gigabyte of products: enough that a GPU is filled and rarely waits for the host."""

Sides = list[list[Tensor]]
"""Both sides on each device."""


class TorchBackend(Backend):
    """Tiles on torch devices; what comes back to the host is as small as the answer."""

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
        """All copies are under way at once."""

        def put(device: str) -> list[Tensor]:
            return [torch.from_numpy(side).to(device) for side in (left, right)]

        return list(in_order(self.workers, self.devices, put))

    def product(self, loaded: Sides, tile: Tile, sides: tuple[int, int] = (0, 1)) -> Tensor:
        mine = loaded[self.owned.mine]
        left, right = mine[sides[0]][tile.rows], mine[sides[1]][tile.cols]
        if left.is_cuda and left.dtype != torch.float32:
            return torch.mm(left.half(), right.half().T, out_dtype=torch.float32)
        return left.float() @ right.float().T

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
        scaled = product * inverse_temperature
        tables = [scaled] if mask is None else [scaled, scaled.masked_fill(mask, -torch.inf)]
        by_row, by_col = (
            np.stack([_to_host(torch.logsumexp(table, axis).double()) for table in tables]) for axis in (1, 0)
        )
        return by_row, by_col


def _to_host(tensor: Tensor) -> Array:
    return np.asarray(tensor.cpu())
