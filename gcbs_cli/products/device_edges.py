"""Undirected edges found and kept on torch devices: the graph above a threshold is too large to go to the host."""

from dataclasses import dataclass

import numpy as np
import torch

from gcbs_cli.data.grid import Grid
from gcbs_cli.products.operations import Limits
from gcbs_cli.products.tiles import Progress, Tile, cut, run_tiles
from gcbs_cli.products.torch_device import TorchBackend, exceeding, naming_what_does_not_fit


@dataclass(frozen=True)
class DeviceEdges:
    """lower, higher: (E,) int32 on one device, each edge once, lower < higher; entries_above: of all N², the diagonal
    included.
    """

    lower: torch.Tensor
    higher: torch.Tensor
    entries_above: int


def find_device_edges(
    grid: Grid,
    threshold: int,
    backend: TorchBackend,
    *,
    tile_rows: int | None = None,
    progress: Progress | None = None,
) -> DeviceEdges:
    """Every {i, j} for which the number of (i, j) or of (j, i) is above the threshold, on the first of the devices.

    A tile of rows I and columns J, none of which lies before I, is made in both directions: each edge comes out once.
    Raises OutOfDeviceMemory where a device holds not even small tiles, or the first not all edges.
    """
    number = np.int32(threshold)
    forward, backward = (
        Limits(number - own, -other)
        for own, other in ((grid.x_offsets, grid.y_offsets), (grid.y_offsets, grid.x_offsets))
    )
    loaded = backend.load(grid.x, grid.y)

    def work(tile: Tile) -> tuple[torch.Tensor, torch.Tensor, int]:
        sides = backend.mine(loaded)
        after = tile.rows.start - tile.cols.start + 1
        above = exceeding(sides.product(tile.rows, tile.cols), tile, forward).triu(after)
        entries = int(above.sum())
        mirrored = exceeding(sides.mirrored().product(tile.rows, tile.cols), tile, backward).triu(after)
        entries += int(mirrored.sum())
        rows, cols = torch.nonzero(above | mirrored, as_tuple=True)
        return (rows + tile.rows.start).int(), (cols + tile.cols.start).int(), entries

    rows, (height, width) = len(grid.x), backend.tile_shape
    tiles = [tile for tile in cut(rows, rows, tile_rows or height, width) if tile.cols.stop > tile.rows.start]
    parts = [found for _, found in run_tiles(backend, tiles, work, progress)]
    entries = sum(found for *_, found in parts) + int(np.count_nonzero(grid.diagonal() > threshold))
    edges = sum(len(part[0]) for part in parts)
    device = backend.devices[0]
    with naming_what_does_not_fit(f"{edges:,} edges", "a higher --quantile, fewer rows, --partitions"):
        lower = torch.cat([part[0].to(device) for part in parts])
        higher = torch.cat([part[1].to(device) for part in parts])
    return DeviceEdges(lower, higher, entries)
