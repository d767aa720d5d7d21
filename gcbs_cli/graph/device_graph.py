"""The graph of hard negatives on a device, where it is found: nothing of its size goes to the host.

64-bit row pointers, 32-bit node numbers; work over all entries goes in blocks of rows, so that the scratch memory stays
small beside the graph.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, permutations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gcbs_cli.data.grid import Grid
from gcbs_cli.graph.adjacency import Graph, OrderMeasures
from gcbs_cli.products.operations import Progress, Tile
from gcbs_cli.products.torch_device import pair_flags
from gcbs_cli.system.arrays import Ints

ENTRIES_AT_ONCE = 1 << 27
"""With the rest of a row fewer than 2²⁸; `torch.sort` and `torch.nonzero` refuse more than 2³¹ − 1."""


@dataclass(frozen=True)
class DeviceGraph(Graph):
    """A graph on a device."""

    indptr: Tensor
    indices: Tensor
    achieved_quantile: float | None = None
    """The share of the N² entries at or below t."""

    @property
    def counts(self) -> Tensor:
        """(N,) int64 degrees, on the device."""
        return self.indptr.diff()

    @property
    def degrees(self) -> Ints:
        """(N,) degrees, on the host."""
        return np.asarray(self.counts.cpu())

    def least(self, rows: slice, values: Tensor) -> Tensor:
        """(n,) of each row of a block the least of its entries' values, whole numbers below N; N where it has none.

        Segments are read one after the other; atomics on numbers of 64 bits would be loops.
        """
        starts = self.indptr[rows.start : rows.stop + 1] - self.indptr[rows.start]
        found = torch.segment_reduce(values.double(), "min", offsets=starts, initial=self.nodes, unsafe=True)
        return found.long()

    def measure(
        self, orders: Sequence[Ints], batch_size: int, *, entries_at_once: int = ENTRIES_AT_ONCE
    ) -> list[OrderMeasures]:
        """Bandwidth, profile and in-batch edge share of some orders, as on the host, in one pass."""
        places = [torch.from_numpy(order).to(self.indptr.device).argsort() for order in orders]
        farthest, together = [torch.zeros_like(place) for place in places], [0 for _ in places]
        for rows, entries in row_blocks(self.indptr, entries_at_once):
            neighbours = self.indices[entries].long()
            for number, place in enumerate(places):
                near = place[neighbours]
                farthest[number][rows] = (place[rows] - self.least(rows, near)).clamp_(min=0)
                own = torch.repeat_interleave(place[rows] // batch_size, self.counts[rows])
                together[number] += int((own == near // batch_size).sum())
        return [
            OrderMeasures(int(reach.max()), int(reach.sum()), inside / len(self.indices) if self.edges else None)
            for reach, inside in zip(farthest, together, strict=True)
        ]


def row_blocks(indptr: Tensor, entries_at_once: int) -> Iterator[tuple[slice, slice]]:
    """Consecutive rows with about so many entries, at least one row and one entry, and these entries."""
    begins = torch.arange(0, int(indptr[-1]), entries_at_once, device=indptr.device)
    bounds = [*torch.unique_consecutive(torch.searchsorted(indptr[:-1], begins)).tolist(), len(indptr) - 1]
    for (start, first), (stop, last) in pairwise(zip(bounds, indptr[bounds].tolist(), strict=True)):
        if first < last:
            yield slice(start, stop), slice(first, last)


def find_device_graph(grid: Grid, threshold: int, backend: Any, progress: Progress | None = None) -> DeviceGraph:
    """The graph with an edge {i, j} where the number of (i, j) or of (j, i) is above the threshold.

    A tile of rows I and columns J, none of which lies before I, is made in both directions: each edge comes out once.
    The first device holds the graph. Raises OutOfDeviceMemory, or torch's own error, where one holds too little.
    `backend`: a TorchBackend.
    """
    rows, first = len(grid.x), backend.devices[0]
    loaded, flagged = backend.load(grid.x, grid.y), pair_flags(first)
    mirrored = [(y, x) for x, y in loaded]
    both = torch.from_numpy(grid.x_offsets), torch.from_numpy(grid.y_offsets)
    offsets = [[each.to(device) for each in both] for device in backend.devices]

    def work(tile: Tile) -> tuple[Tensor, Tensor]:
        there, back = backend.product(loaded, tile), backend.product(mirrored, tile)
        flags = flagged(there, back, offsets[backend.owned.mine], tile, threshold)
        i, j = torch.nonzero(flags, as_tuple=True)
        above = (flags[i, j] + 1) >> 1  # 1 of one direction, 2 of both
        return torch.stack([i + tile.rows.start, j + tile.cols.start]).int(), above.sum()

    tiles = [tile for tile in backend.tiles(rows, rows) if tile.cols.stop > tile.rows.start]
    parts, counts = zip(*(found for _, found in backend.run(tiles, work, progress)), strict=True)
    loaded.clear()
    mirrored.clear()
    backend.free_memory()
    entries = sum(map(int, counts)) + int(np.count_nonzero(grid.diagonal() > threshold))
    ends = torch.cat([part.to(first) for part in parts], dim=1)
    del parts
    return DeviceGraph(*rows_of_pairs(rows, ends), 1.0 - entries / rows**2)


def rows_of_pairs(nodes: int, ends: Tensor, *, entries_at_once: int = ENTRIES_AT_ONCE) -> tuple[Tensor, Tensor]:
    """indptr and indices of the graph with an edge for each of the pairs, (2, E) int32 ends, each given one way."""
    parts = torch.split(ends, entries_at_once, dim=1)
    indptr = torch.zeros(nodes + 1, dtype=torch.int64, device=ends.device)
    for part in parts:
        indptr[1:] += torch.bincount(part.reshape(-1), minlength=nodes)
    indptr.cumsum_(0)
    indices = torch.empty(2 * ends.shape[1], dtype=torch.int32, device=ends.device)
    for rows, entries in row_blocks(indptr, entries_at_once):
        keys = []
        for own, others in chain.from_iterable(map(permutations, parts)):
            inside = (own >= rows.start) & (own < rows.stop)
            keys.append(own[inside].long() * nodes + others[inside])
        indices[entries] = torch.sort(torch.cat(keys)).values.remainder_(nodes).int()
    return indptr, indices
