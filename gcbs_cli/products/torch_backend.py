"""Tiles on any torch device: the reference for GPU code, tested on the CPU."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from gcbs_cli.products.backend import (
    Array,
    Entries,
    EntryLimits,
    Finder,
    LimitedRows,
    Lister,
    Summariser,
    below,
    float32_error,
    plain_finder,
)
from gcbs_cli.products.tiles import DEFAULT_TILE_COLS, DEFAULT_TILE_ROWS, Tile

GPU_TILE = (8192, 16384)
"""Half a gigabyte of products: enough that a GPU is filled and rarely waits for the host."""


def has_kernels(device: str) -> bool:
    """Whether the Triton kernels run on a device."""
    return device.startswith("cuda") and find_spec("triton") is not None


@contextmanager
def without_tf32() -> Iterator[None]:
    """While this is held, float32 products of this process are float32 products."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class TorchBackend:
    """float32 products without TF32; what comes back to the host is as small as the answer."""

    workers = 1
    memory_errors: tuple[type[Exception], ...] = (torch.OutOfMemoryError,)

    def __init__(self, device: str, *, fused: bool | None = None) -> None:
        """`fused`: with the Triton kernels; by default where Triton is there and the device is a GPU."""
        self.name = device
        self.devices: Sequence[str] = (device,)
        self._device = torch.device(device)
        self._fused = has_kernels(device) if fused is None else fused
        self.tile_shape = GPU_TILE if device.startswith("cuda") else (DEFAULT_TILE_ROWS, DEFAULT_TILE_COLS)

    def free_memory(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def load(self, rows: NDArray[Any]) -> Array:
        host = torch.from_numpy(np.ascontiguousarray(rows))
        try:
            return host.to(self._device)
        except torch.OutOfMemoryError:
            self.free_memory()
        return host  # each tile then takes its rows there

    def part(self, loaded: Array, rows: slice) -> Array:
        return loaded[rows].to(self._device)

    def running(self) -> AbstractContextManager[None]:
        return without_tf32()

    def product(self, x: Array, y: Array, rows: slice, cols: slice) -> torch.Tensor:
        return x[rows].to(self._device) @ y[cols].to(self._device).T

    def error(self, dim: int) -> float:
        return float32_error(dim)

    def above(self, tile: torch.Tensor, threshold: float | NDArray[np.float32]) -> Entries:
        limit = torch.as_tensor(threshold, dtype=torch.float32, device=tile.device)
        flat = torch.nonzero((tile > limit).reshape(-1)).reshape(-1)
        values = tile.reshape(-1)[flat]
        rows, cols = np.divmod(_to_numpy(flat), tile.shape[1])
        return Entries(rows, cols, _to_numpy(values))

    def finder(self, x: NDArray[np.float32], y: NDArray[np.float32], threshold: float) -> Finder:
        if not self._fused:
            return plain_finder(self, x, y, threshold)
        nothing = np.full(max(len(x), len(y)), np.inf, np.float32)
        limit = below(threshold, self.error(x.shape[1]))
        summarise = self.summariser(self.load(x), self.load(y), EntryLimits(limit, nothing, nothing, nothing), [])
        assert summarise is not None
        return lambda tile: summarise(tile).entries

    def lister(self, limited: LimitedRows) -> Lister | None:
        if not self._fused:
            return None
        nothing = np.full(max(len(limited.x), len(limited.y)), np.inf, np.float32)
        limits = EntryLimits(np.inf, limited.x_limits, limited.y_limits, nothing)
        summarise = self.summariser(self.load(limited.x), self.load(limited.y), limits, [])
        assert summarise is not None

        def both(tile: Tile) -> tuple[Entries, Entries]:
            listed = summarise(tile).entries
            return listed, listed

        return both

    def summariser(
        self, x: Array, y: Array, limits: EntryLimits, inverse_temperatures: list[float]
    ) -> Summariser | None:
        if not self._fused:
            return None
        from gcbs_cli.products.fused_tiles import FusedTiles

        return FusedTiles(x, y, limits, inverse_temperatures, device=self.name)

    def take(self, tile: torch.Tensor, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.float32]:
        return cast(NDArray[np.float32], _to_numpy(tile[_places(tile, rows, cols)]))

    def remove(self, tile: torch.Tensor, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> None:
        tile[_places(tile, rows, cols)] = -torch.inf

    def log_sums(
        self, tile: torch.Tensor, inverse_temperature: float, *, columns: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        rows = _shifted_log_sums(tile, inverse_temperature, 1)
        return rows, _shifted_log_sums(tile, inverse_temperature, 0) if columns else None

    def largest(self, tile: torch.Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return _to_numpy(tile.amax(dim=1)), _to_numpy(tile.amax(dim=0))

    def row_threshold(self, tile: torch.Tensor, rank: int) -> NDArray[np.float32]:
        return _to_numpy(torch.topk(tile, rank, dim=1).values[:, -1])


def _places(tile: torch.Tensor, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(rows).to(tile.device), torch.from_numpy(cols).to(tile.device)


def _shifted_log_sums(tile: torch.Tensor, inverse_temperature: float, axis: int) -> NDArray[np.float64]:
    largest = tile.amax(dim=axis, keepdim=True)
    shift = torch.where(torch.isfinite(largest), largest, torch.zeros_like(largest))
    sums = ((tile - shift) * inverse_temperature).exp().sum(dim=axis, dtype=torch.float64).log()
    return _to_numpy(sums + inverse_temperature * shift.reshape(-1).double())


def _to_numpy(tensor: torch.Tensor) -> Array:
    return tensor.cpu().numpy()
