"""The graph of hard negatives on a device, where it is found: nothing of its size goes to the host.

64-bit row pointers, 32-bit node numbers; work over all entries goes in blocks of rows, so that the scratch memory stays
small beside the graph.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from gcbs_cli.data.grid import Grid
from gcbs_cli.graph.measures import OrderMeasures
from gcbs_cli.products.operations import Limits
from gcbs_cli.products.tiles import Progress, Tile
from gcbs_cli.products.torch_device import TorchBackend, exceeding

ENTRIES_AT_ONCE = 1 << 27
"""`torch.sort` refuses more than 2³¹ − 1."""


@dataclass(frozen=True)
class DeviceGraph:
    """What Adjacency holds, as tensors of one device: indptr (N + 1,) int64, indices (2E,) int32."""

    indptr: torch.Tensor
    indices: torch.Tensor
    achieved_quantile: float | None = None
    """The share of the N² entries at or below t."""

    @property
    def nodes(self) -> int:
        """N, the number of rows."""
        return len(self.indptr) - 1

    @property
    def edges(self) -> int:
        """E, the number of undirected edges."""
        return len(self.indices) // 2

    @property
    def counts(self) -> torch.Tensor:
        """(N,) int64 degrees, on the device."""
        return self.indptr.diff()

    @property
    def degrees(self) -> NDArray[np.int64]:
        """(N,) degrees, on the host."""
        degrees: NDArray[np.int64] = self.counts.cpu().numpy()
        return degrees

    def blocks(self, entries_at_once: int = ENTRIES_AT_ONCE) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The row and the neighbour of all entries, (E',) int64 each, some whole rows after the others."""
        for start, stop in _row_ranges(self.indptr, entries_at_once):
            rows = torch.arange(start, stop, device=self.indptr.device)
            neighbours = self.indices[self.indptr[start] : self.indptr[stop]]
            yield torch.repeat_interleave(rows, self.counts[start:stop]), neighbours.long()

    def measure(
        self, perm: NDArray[np.int64], batch_size: int, *, entries_at_once: int = ENTRIES_AT_ONCE
    ) -> OrderMeasures:
        """Bandwidth, profile and in-batch edge share, as `measure_order` defines them."""
        if self.edges == 0:
            return OrderMeasures(0, 0, None)
        place = torch.from_numpy(perm).to(self.indptr.device).argsort()
        farthest, together = torch.zeros_like(place), 0
        for block in self.blocks(entries_at_once):
            rows, neighbours = (place[nodes] for nodes in block)
            farthest.scatter_reduce_(0, rows, rows - neighbours, "amax")
            together += int((rows // batch_size == neighbours // batch_size).sum())
        return OrderMeasures(int(farthest.max()), int(farthest.sum()), together / len(self.indices))


def _row_ranges(indptr: torch.Tensor, entries_at_once: int) -> Iterator[tuple[int, int]]:
    """Consecutive rows (start, stop) with about so many entries, at least one row."""
    begins = torch.arange(0, int(indptr[-1]), entries_at_once, device=indptr.device)
    starts = torch.searchsorted(indptr[:-1], begins).tolist()
    return pairwise([*starts, len(indptr) - 1])


def find_device_graph(
    grid: Grid,
    threshold: int,
    backend: TorchBackend,
    *,
    tile_rows: int | None = None,
    progress: Progress | None = None,
) -> DeviceGraph:
    """The graph with an edge {i, j} where the number of (i, j) or of (j, i) is above the threshold.

    A tile of rows I and columns J, none of which lies before I, is made in both directions: each edge comes out once.
    The first device holds the graph. Raises OutOfDeviceMemory, or torch's own error, where one holds too little.
    """
    number = np.int32(threshold)
    forward = Limits(number - grid.x_offsets, -grid.y_offsets)
    backward = Limits(number - grid.y_offsets, -grid.x_offsets)
    loaded = backend.load(grid.x, grid.y)
    mirrored = [(y, x) for x, y in loaded]

    def work(tile: Tile) -> tuple[torch.Tensor, torch.Tensor, int]:
        after = tile.rows.start - tile.cols.start + 1
        above = exceeding(backend.product(loaded, tile), tile, forward).triu(after)
        below = exceeding(backend.product(mirrored, tile), tile, backward).triu(after)
        rows, cols = torch.nonzero(above | below, as_tuple=True)
        return (rows + tile.rows.start).int(), (cols + tile.cols.start).int(), int(above.sum() + below.sum())

    rows = len(grid.x)
    tiles = [tile for tile in backend.tiles(rows, rows, tile_rows) if tile.cols.stop > tile.rows.start]
    lower, higher, counts = zip(*(part for _, part in backend.run(tiles, work, progress)), strict=True)
    entries = sum(counts) + int(np.count_nonzero(grid.diagonal() > threshold))
    ends = (torch.cat([part.to(backend.devices[0]) for part in parts]) for parts in (lower, higher))
    return DeviceGraph(*rows_of_pairs(rows, *ends), 1.0 - entries / rows**2)


def rows_of_pairs(
    nodes: int, lower: torch.Tensor, higher: torch.Tensor, *, entries_at_once: int = ENTRIES_AT_ONCE
) -> tuple[torch.Tensor, torch.Tensor]:
    """indptr and indices of the graph with an edge for every unordered pair, (E,) int32 ends, each pair given once."""
    indptr = torch.zeros(nodes + 1, dtype=torch.int64, device=lower.device)
    counts = torch.bincount(lower, minlength=nodes) + torch.bincount(higher, minlength=nodes)
    torch.cumsum(counts, 0, out=indptr[1:])
    indices = torch.empty(2 * len(lower), dtype=torch.int32, device=lower.device)
    for start, stop in _row_ranges(indptr, entries_at_once):
        keys = []
        for rows, neighbours in ((lower, higher), (higher, lower)):
            inside = (rows >= start) & (rows < stop)
            keys.append(rows[inside].long() * nodes + neighbours[inside])
        indices[indptr[start] : indptr[stop]] = torch.sort(torch.cat(keys)).values.remainder_(nodes).int()
    return indptr, indices
