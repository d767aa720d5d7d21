"""The graph of hard negatives on a device, where it was found: nothing of its size goes to the host.

64-bit row pointers, 32-bit node numbers; work over all entries goes in blocks of rows, so that the scratch memory stays
small beside the graph.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.graph.measures import OrderMeasures

ENTRIES_AT_ONCE = 1 << 27


@dataclass(frozen=True)
class RowBlock:
    """Consecutive rows of a graph: the row (E',) int64 and the neighbour (E',) int64 of each of their entries."""

    start: int
    stop: int
    rows: torch.Tensor
    neighbours: torch.Tensor


@dataclass(frozen=True)
class DeviceGraph:
    """What Adjacency holds, as tensors of one device: indptr (N + 1,) int64, indices (2E,) int32."""

    indptr: torch.Tensor
    indices: torch.Tensor

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

    def blocks(self, entries_at_once: int | None = None) -> Iterator[RowBlock]:
        """All rows in blocks of about so many entries; at least one row each."""
        for start, stop, entries in _row_ranges(self.indptr, entries_at_once):
            counts = self.indptr[start : stop + 1].diff()
            rows = torch.repeat_interleave(torch.arange(start, stop, device=self.indptr.device), counts)
            yield RowBlock(start, stop, rows, self.indices[entries].long())

    def to_host(self) -> Adjacency:
        """The same graph in the host's memory, for what is not done on devices."""
        return Adjacency(self.indptr.cpu().numpy(), self.indices.cpu().numpy())


def _row_ranges(indptr: torch.Tensor, entries_at_once: int | None) -> Iterator[tuple[int, int, slice]]:
    """Consecutive rows (start, stop) of about so many entries, at least one, and where these entries lie."""
    ends, start = indptr.cpu().numpy(), 0
    while start < len(ends) - 1:
        stop = int(np.searchsorted(ends, ends[start] + (entries_at_once or ENTRIES_AT_ONCE), side="right")) - 1
        stop = min(max(stop, start + 1), len(ends) - 1)
        yield start, stop, slice(int(ends[start]), int(ends[stop]))
        start = stop


def device_graph_from_pairs(
    nodes: int, lower: torch.Tensor, higher: torch.Tensor, *, entries_at_once: int | None = None
) -> DeviceGraph:
    """The graph with an edge for every unordered pair (lower_e, higher_e), int32, each given once.

    Sorted in blocks of rows of about `entries_at_once`: `torch.sort` refuses more than 2³¹ − 1 entries.
    """
    device = lower.device
    counts = torch.bincount(lower, minlength=nodes) + torch.bincount(higher, minlength=nodes)
    indptr = torch.zeros(nodes + 1, dtype=torch.int64, device=device)
    torch.cumsum(counts, 0, out=indptr[1:])
    indices = torch.empty(2 * len(lower), dtype=torch.int32, device=device)
    for start, stop, entries in _row_ranges(indptr, entries_at_once):
        keys = []
        for rows, neighbours in ((lower, higher), (higher, lower)):
            inside = (rows >= start) & (rows < stop)
            keys.append(rows[inside].long() * nodes + neighbours[inside])
        indices[entries] = torch.sort(torch.cat(keys)).values.remainder_(nodes).int()
    return DeviceGraph(indptr, indices)


def measure_on_device(
    graph: DeviceGraph, perm: NDArray[np.int64], batch_size: int, entries_at_once: int | None = None
) -> OrderMeasures:
    """Bandwidth, profile and in-batch edge share, as `measure_order` defines them."""
    if graph.edges == 0:
        return OrderMeasures(0, 0, None)
    device = graph.indptr.device
    place = torch.empty(graph.nodes, dtype=torch.int64, device=device)
    place[torch.from_numpy(perm).to(device)] = torch.arange(graph.nodes, device=device)
    bandwidth = profile = together = 0
    for block in graph.blocks(entries_at_once):
        rows, neighbours = place[block.rows], place[block.neighbours]
        farthest = torch.zeros(block.stop - block.start, dtype=torch.int64, device=device)
        farthest.scatter_reduce_(0, block.rows - block.start, rows - neighbours, "amax")
        bandwidth = max(bandwidth, int(farthest.max()))
        profile += int(farthest.sum())
        together += int((rows // batch_size == neighbours // batch_size).sum())
    return OrderMeasures(bandwidth, profile, together / len(graph.indices))
