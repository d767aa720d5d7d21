"""The pass of `gcbs plan`: from unit rows to the graph of hard negatives, and what keeps the ends of an edge apart."""

from dataclasses import dataclass

import numpy as np

from gcbs_cli.data.grid import Grid
from gcbs_cli.data.pairs import PairedRows, pair_values
from gcbs_cli.graph.adjacency import Adjacency, adjacency_from_pairs, edges_of_lists
from gcbs_cli.products.operations import Backend, Entries, Limits, ProgressCallback, Tile
from gcbs_cli.products.threshold import Threshold
from gcbs_cli.products.top_lists import TopSearch
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.arrays import Bools, Floats, Int32s, grouped
from gcbs_cli.system.errors import BadInput

ROUNDING = 0.01
"""How far the distance of two rows may be off, as their norms are 1 to three digits."""


@dataclass(frozen=True)
class WeightedGraph:
    """A graph and, for each stored entry (i, j), canonical s_ij (`forward`) and s_ji (`backward`), (2E,) float64.

    `alike`: (2E,) whether the two are near duplicates, the same both ways.
    """

    graph: Adjacency
    forward: Floats
    backward: Floats
    alike: Bools


@dataclass(frozen=True)
class PassResult:
    """What one pass over X Yᵀ finds."""

    threshold: Threshold
    entries: Entries
    """The entries above t off the diagonal, or none where a plan needs none; values: numbers of the grid."""
    hardest: list[Int32s]
    """(N, m) the hardest columns of each row, and the hardest rows of each column; or nothing."""


@dataclass(frozen=True)
class HardPairs:
    """The hard pairs of a plan."""

    graph: Adjacency
    """Without the edges that are too hard, or join near duplicates."""
    weighted: WeightedGraph | None
    """With all edges, where some may be left out of the other."""
    achieved_quantile: float | None
    """The share of the N(N − 1) entries at or below t; None where they were not counted."""


def find(
    grid: Grid,
    threshold: Threshold,
    backend: Backend,
    *,
    above: bool = True,
    lists: int = 0,
    seed: int = 0,
    progress: ProgressCallback | None = None,
    most: int | None = None,
) -> PassResult:
    """One pass over X Yᵀ to its entries above t and the hardest of each row and column, the same on every device.

    above: whether entries above t are needed; lists: the length of the lists, 0 for none; most: how many entries above
    t memory has room for. Memory: 12 bytes an entry, as much again while they are joined, 8 bytes a place on the lists,
    and the tiles' scratch. Raises BadInput where more entries than that are above t.
    """
    searches = [TopSearch(grid, side, lists) for side in range(2) if lists]
    limits = [search.likely_limits(backend, seed) for search in searches]
    if above:
        limits.append(Limits(np.int32(threshold.number) - grid.x_offsets, -grid.y_offsets))

    def scan(tile: Tile) -> list[Entries]:
        return [part.off_diagonal() for part in backend.scan(loaded, tile, limits)]

    loaded, tiles = backend.load(grid.x, grid.y), backend.tiles(len(grid.x), len(grid.y))
    heaps = [search.heaps(len(grid.x)) for search in searches]
    parts: list[Entries] = []
    count = 0
    for _, listed in backend.run(tiles, scan, progress):
        for search, heap, candidates in zip(searches, heaps, listed, strict=False):
            search.offer(heap, candidates)
        if above:
            parts.append(listed[-1])
            count += len(listed[-1])
            # The sample behind t or the forecast misjudges data with many equal rows.
            if most is not None and count > most:
                raise BadInput(
                    f"the pass has found {count:,} hard pairs already, and memory has room for {most:,}; use a "
                    "smaller --per-row, a higher --quantile or --threshold, or leave out rows that are nearly equal"
                )
    hardest = [search.lists(heap) for search, heap in zip(searches, heaps, strict=True)]
    entries = Entries.joined(parts)
    values = entries.values
    values += grid.x_offsets[entries.rows]  # in place: at this point entries take most of the memory
    values += grid.y_offsets[entries.cols]
    return PassResult(threshold, entries, hardest)


def hard_pairs(pairs: PairedRows, settings: PlanSettings, result: PassResult) -> HardPairs:
    """The graph of a pass; its lists may be longer than the settings ask, where several plans share it."""
    graph = _graph(pairs.rows, settings, result)
    weighted = None
    if settings.avoids:
        weighted = weigh(graph, pairs, settings.apart_from)
        keep = ~weighted.alike
        if settings.fn_margin is not None:
            bound = settings.fn_margin * pairs.diagonal()
            bounds = np.minimum(bound[graph.row_of_entry()], bound[graph.indices])
            keep &= np.maximum(weighted.forward, weighted.backward) < bounds
        graph = graph.subgraph(keep)
    achieved = None
    if settings.uses_threshold:
        achieved = 1.0 - len(result.entries) / (pairs.rows * (pairs.rows - 1))
    return HardPairs(graph, weighted, achieved)


def weigh_every_row(hard: HardPairs, pairs: PairedRows, settings: PlanSettings) -> WeightedGraph:
    """All edges with their similarities, and edges from each row without any to its `top` hardest columns and rows.

    A quantile graph leaves rows alone whose best negative lies below t (3 % of codedoc by default); weighted methods
    can then give them the best place there is.
    """
    graph = hard.graph if hard.weighted is None else hard.weighted.graph
    alone = np.flatnonzero(graph.degrees == 0)
    if len(alone):
        lists = [TopSearch(pairs.grid, side, settings.top).of_few(alone) for side in range(2)]
        places, others = edges_of_lists(np.hstack(lists))
        rows = np.concatenate([graph.row_of_entry(), alone[places]])
        graph = adjacency_from_pairs(pairs.rows, rows, np.concatenate([graph.indices, others]))
    elif hard.weighted is not None:
        return hard.weighted
    return weigh(graph, pairs, settings.apart_from)


def list_length(settings: PlanSettings) -> int:
    """How many of each row's hardest columns, and of each column's hardest rows, the pass must list."""
    if settings.rank_window is not None:
        return sum(settings.rank_window)
    return settings.top if settings.graph == "top-m" else 0


def _graph(count: int, settings: PlanSettings, result: PassResult) -> Adjacency:
    if settings.rank_window is not None:
        # B3's graph: {i, j} where y_j is among ranks p to p + m − 1 of x_i, and y_i is there for x_j.
        skipped, width = settings.rank_window
        rows, cols = edges_of_lists(result.hardest[0][:, skipped : skipped + width])
        there = rows.astype(np.int64) * count + cols
        back = cols.astype(np.int64) * count + rows
        mutual = np.isin(there, back, assume_unique=True)
        rows, cols = rows[mutual], cols[mutual]
    elif settings.graph == "top-m":
        lists = [hardest[:, : settings.top] for hardest in result.hardest]
        edges = [edges_of_lists(np.hstack(lists))]
        if settings.apart_from is not None:
            edges += map(_neighbours_by_list, lists)
        rows, cols = map(np.concatenate, zip(*edges, strict=True))
    else:
        rows, cols = result.entries.rows, result.entries.cols
    return adjacency_from_pairs(count, rows, cols)


def _neighbours_by_list(lists: Int32s) -> tuple[Int32s, Int32s]:
    """Each row and the next one in the order of their lists.

    Near duplicates have nearly the same list, but are on each other's only where their positives are strong.
    """
    order = np.lexsort(lists.T[::-1]).astype(np.int32)
    return order[:-1], order[1:]


def weigh(graph: Adjacency, pairs: PairedRows, apart_from: float | None = None) -> WeightedGraph:
    """The graph with its similarities, each computed once: the other direction is its mirror image.

    apart_from: rows whose x or y are this similar are near duplicates.
    """
    rows = graph.row_of_entry()
    # Entries lie by (row, column); a stable sort by column puts (i, j) where (j, i) lies.
    back, _ = grouped(graph.indices, graph.nodes)
    forward = pair_values(pairs, rows, graph.indices)
    alike = np.zeros(len(rows), np.bool_)
    if apart_from is not None:
        # Unit rows of cosine c are √(2 − 2c) apart, so that their products with a third differ by no more.
        reach = np.sqrt(2.0 - 2.0 * apart_from) + ROUNDING
        positive = pairs.diagonal()
        for side, of_positive in ((pairs.x, graph.indices), (pairs.y, rows)):
            near = np.flatnonzero((rows < graph.indices) & (np.abs(forward - positive[of_positive]) <= reach))
            alike[near] |= pair_values(PairedRows(side, side), rows[near], graph.indices[near]) >= apart_from
        alike |= alike[back]
    return WeightedGraph(graph, forward, forward[back], alike)
