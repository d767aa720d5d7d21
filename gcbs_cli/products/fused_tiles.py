"""Sums and large entries of tiles of X Yᵀ by a Triton kernel that never writes the products to memory."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gcbs_cli.products.backend import Entries, EntryLimits, TileSummary
from gcbs_cli.products.launching import launching_on
from gcbs_cli.products.tiles import Tile

PRECISION = "ieee"
"""Products in plain float32, rounded to nearest: the bound `float32_error` holds, and no error has a direction.

`tf32x3` uses the matrix units, which cut sums off; it is to be preferred once it is measured on a GPU.
"""
DEPTH = 32
TILE = 128
FIRST_ROOM = 1 << 20
FUSED_TILE_ROWS = 1 << 14
FUSED_TILE_COLS = 1 << 16
"""Rows and columns a launch: large enough to fill a GPU, while its partial sums stay below a tenth of a gigabyte."""


@dataclass(frozen=True)
class _Launch:
    """What one launch fills, on the device: see `triton_kernels.summarise_tile`."""

    row_largest: torch.Tensor
    row_sums: torch.Tensor
    col_largest: torch.Tensor
    col_sums: torch.Tensor
    ends: torch.Tensor
    values: torch.Tensor
    count: torch.Tensor


class FusedTiles:
    """Summaries of the tiles of X Yᵀ for one set of limits and temperatures."""

    tile_rows, tile_cols = FUSED_TILE_ROWS, FUSED_TILE_COLS

    def __init__(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        limits: EntryLimits,
        inverse_temperatures: list[float],
        *,
        device: str | None = None,
        precision: str = PRECISION,
    ) -> None:
        """x, y: (N, d) float32 unit rows, on the device or to be sent there tile by tile; limits: of all rows and
        columns; device: by default where x is; precision: as Triton's dot.
        """
        self._device = torch.device(device) if device else x.device
        self._x, self._y, self._threshold = x, y, float(np.float32(limits.threshold))
        self._rows, self._cols, self._suspicion = (
            torch.from_numpy(np.ascontiguousarray(part, np.float32)).to(self._device)
            for part in (limits.rows, limits.cols, limits.suspicion)
        )
        self._scales = inverse_temperatures
        self._precision, self._room = precision, FIRST_ROOM

    def __call__(self, tile: Tile) -> TileSummary:
        """Sums and entries of a tile; entries in row-major order."""
        while True:
            room = self._room
            filled = self._launch(tile, room)
            count = int(filled.count)
            if count <= room:
                break
            self._room = count + count // 8
        entries, left_out = _sorted_entries(filled.ends[:count], filled.values[:count], tile.cols.stop)
        rows, cols = (
            np.stack([_log_sums(largest, part, scale) for part, scale in zip(sums, self._scales, strict=True)])
            if self._scales
            else np.empty((0, largest.shape[1]))
            for largest, sums in ((filled.row_largest, filled.row_sums), (filled.col_largest, filled.col_sums))
        )
        return TileSummary(entries, left_out, rows, cols)

    def _launch(self, tile: Tile, room: int) -> _Launch:
        from gcbs_cli.products import triton_kernels

        x, y = self._x[tile.rows].to(self._device), self._y[tile.cols].to(self._device)
        grid = -(-len(x) // TILE), -(-len(y) // TILE)
        layers = max(1, len(self._scales))
        device = self._device
        filled = _Launch(
            torch.empty((grid[1], len(x)), dtype=torch.float32, device=device),
            torch.empty((layers, grid[1], len(x)), dtype=torch.float32, device=device),
            torch.empty((grid[0], len(y)), dtype=torch.float32, device=device),
            torch.empty((layers, grid[0], len(y)), dtype=torch.float32, device=device),
            torch.empty((room, 2), dtype=torch.int32, device=device),
            torch.empty(room, dtype=torch.float32, device=device),
            torch.zeros(1, dtype=torch.int64, device=device),
        )
        scales = torch.tensor(self._scales or [1.0], dtype=torch.float32, device=device)
        with launching_on(x):
            triton_kernels.summarise_tile[grid](
                x,
                y,
                self._rows[tile.rows],
                self._cols[tile.cols],
                self._suspicion[tile.rows],
                self._suspicion[tile.cols],
                scales,
                filled.row_largest,
                filled.row_sums,
                filled.col_largest,
                filled.col_sums,
                filled.ends,
                filled.values,
                filled.count,
                room,
                len(x),
                len(y),
                tile.rows.start - tile.cols.start,
                self._threshold,
                len(self._scales),
                x.shape[1],
                TILE,
                DEPTH,
                self._precision,
                num_warps=8,
            )
        return filled


def _sorted_entries(ends: torch.Tensor, values: torch.Tensor, width: int) -> tuple[Entries, NDArray[np.bool_]]:
    """The kernel's list in row-major order, for its own order changes from run to run; and which were left out."""
    left_out = ends[:, 0] < 0
    rows = torch.where(left_out, -1 - ends[:, 0], ends[:, 0]).long()
    cols = ends[:, 1].long()
    order = torch.argsort(rows * width + cols)
    host = [part[order].cpu().numpy() for part in (rows, cols, values, left_out)]
    return Entries(host[0], host[1], host[2]), host[3]


def _log_sums(largest: torch.Tensor, sums: torch.Tensor, scale: float) -> NDArray[np.float64]:
    """(n,) log Σ exp(s · scale) from the partial sums (parts, n), each above its own shift; added in their order."""
    shift = largest.amax(dim=0)
    shift = torch.where(torch.isfinite(shift), shift, torch.zeros_like(shift)).double()
    weights = ((largest.double() - shift) * scale).exp()
    total = (weights * sums.double()).sum(dim=0).log() + shift * scale
    found: NDArray[np.float64] = total.cpu().numpy()
    return found
