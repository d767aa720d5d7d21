"""Cuthill–McKee one level of the search at a time, with sorts, on any torch device: `plan_cm`'s permutation.

A node's key is (position of its earliest-placed neighbour, its degree, its index). A level's nodes depend on the levels
before alone, so that sorting them by that key gives the order of the sequential search. All components are searched at
once, and a stable sort by component puts them one after the other, as in `plan_cm`. Their starts come from FastSV
(Zhang, Azad, Buluç, Parallel algorithms for finding connected components using linear algebra, 2020) on nodes numbered
by (degree, index): the least number of a component is its start.
"""

import torch
from torch import Tensor

from gcbs_cli.graph.device_graph import DeviceGraph, row_blocks
from gcbs_cli.system.arrays import Ints

ENTRIES_AT_ONCE = 1 << 26


def plan_cm_on_device(graph: DeviceGraph, entries_at_once: int = ENTRIES_AT_ONCE) -> Ints:
    """(N,) Cuthill–McKee order, the same as `plan_cm` gives; only the permutation goes to the host."""
    by_degree = torch.argsort(graph.counts, stable=True)
    rank = torch.empty_like(by_degree)
    rank[by_degree] = torch.arange(graph.nodes, device=rank.device)
    component = _components(graph, rank, entries_at_once)
    visited = _search(graph, rank, by_degree[torch.unique(component)], entries_at_once)
    order = visited[torch.argsort(component[visited], stable=True)]
    found: Ints = order.cpu().numpy()
    return found


def _components(graph: DeviceGraph, rank: Tensor, entries_at_once: int) -> Tensor:
    """(N,) for each node the least rank in its component."""
    label = torch.arange(graph.nodes, device=rank.device)  # by rank
    while True:
        root = label[label]
        least = root.clone()
        for rows, entries in row_blocks(graph.indptr, entries_at_once):
            own, near = rank[rows], root[rank[graph.indices[entries].long()]]
            least[own] = torch.minimum(least[own], graph.least(rows, near))
        hooked = label.scatter_reduce(0, label, least, "amin")
        hooked = torch.minimum(torch.minimum(hooked, least), root)
        if torch.equal(hooked, label):
            return label[rank]
        label = hooked


def _search(graph: DeviceGraph, rank: Tensor, starts: Tensor, entries_at_once: int) -> Tensor:
    """(N,) nodes in breadth-first order from all starts at once, by (parent's position, degree, index) in a level."""
    degrees, parent, device = graph.counts, torch.full_like(rank, graph.nodes), rank.device
    parent[starts] = -1
    visited, done, level = torch.empty_like(rank), 0, starts
    while len(level):
        visited[done : done + len(level)] = level
        found, counts = [], degrees[level]
        sizes = torch.unique_consecutive(counts.cumsum(0) // entries_at_once, return_counts=True)[1].tolist()
        # Earlier parts hold earlier parents, so what they claimed stays theirs.
        for nodes, entries in zip(torch.split(level, sizes), torch.split(counts, sizes), strict=True):
            place = torch.repeat_interleave(torch.arange(len(nodes), device=device), entries)
            offset = torch.arange(len(place), device=device) - (torch.cumsum(entries, 0) - entries)[place]
            neighbour, position = graph.indices[graph.indptr[nodes][place] + offset].long(), place + done
            new = parent[neighbour] > position
            neighbour, position = neighbour[new], position[new]
            parent.scatter_reduce_(0, neighbour, position, "amin")
            earliest = parent[neighbour] == position
            neighbour, position = neighbour[earliest], position[earliest]
            found.append(neighbour[torch.argsort(position * graph.nodes + rank[neighbour])])
            done += len(nodes)
        level = torch.cat(found)
    return visited
