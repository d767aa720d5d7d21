"""The pass of `gcbs plan`: from unit rows to the graph of hard negatives and the pairs better kept apart."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import Adjacency, adjacency_from_pairs
from gcbs_cli.graph.weighted import drop_pairs
from gcbs_cli.products.backend import Backend
from gcbs_cli.products.entry_limit import EntryLimit
from gcbs_cli.products.hardest_keys import hardest_of
from gcbs_cli.products.suspects import SuspectPairs, SuspectRule, pairs_of
from gcbs_cli.products.tiles import Progress
from gcbs_cli.products.top_candidates import Candidates, TopLists, find_candidates
from gcbs_cli.settings.plan import GraphSettings, PlanSettings


@dataclass(frozen=True)
class HardPairs:
    """The graph without suspected pairs, the suspected pairs (None where none were looked for), and what share of the
    N² entries lies at or below t (None where they were not counted).
    """

    graph: Adjacency
    suspects: SuspectPairs | None
    achieved_quantile: float | None


def find_hard_pairs(
    pair: PairedRows,
    settings: PlanSettings,
    threshold: float | None,
    backend: Backend,
    *,
    tile_rows: int | None = None,
    progress: Progress | None = None,
    limit: EntryLimit | None = None,
) -> HardPairs:
    """One pass over X Yᵀ; the same result on every device and block size.

    `threshold`: t, needed for a quantile graph and for suspected pairs; `limit`: how many entries there is room for.
    """
    false = settings.false_negatives
    from_threshold = settings.graph.uses_threshold or false.active
    found = find_candidates(
        pair,
        threshold if from_threshold else None,
        lists_wanted(settings),
        backend,
        seed=settings.seed,
        ties=false.active,
        tile_rows=tile_rows,
        progress=progress,
        limit=limit,
    )
    return hard_pairs_among(pair, settings, found, backend)


def hard_pairs_among(pair: PairedRows, settings: PlanSettings, found: Candidates, backend: Backend) -> HardPairs:
    """The graph and the suspected pairs from what a pass has found; its lists may be longer than the settings ask."""
    suspects = _suspects(pair, settings, found, backend)
    graph = _graph(pair.rows, settings.graph, found)
    if suspects is not None:
        graph = drop_pairs(graph, suspects.lower, suspects.higher)
    achieved = None
    if found.exceedances is not None:
        achieved = 1.0 - float(np.count_nonzero(found.exceedances.values > found.exceedances.threshold)) / pair.rows**2
    return HardPairs(graph, suspects, achieved)


def lists_wanted(settings: PlanSettings) -> int:
    """How many of each row's hardest columns, and of each column's hardest rows, the pass must list."""
    graph = settings.graph
    wanted = graph.top if graph.graph == "top-m" else 0
    return wanted if graph.rank_window is None else sum(graph.rank_window)


def _graph(rows: int, settings: GraphSettings, found: Candidates) -> Adjacency:
    if settings.rank_window is not None and found.x is not None:
        return _mutual_window(found.x, *settings.rank_window)
    if settings.graph == "top-m" and found.x is not None and found.y is not None:
        own, other = ranked_entries(found.x, 0, settings.top), ranked_entries(found.y, 0, settings.top)
        return adjacency_from_pairs(rows, np.concatenate([own[0], other[1]]), np.concatenate([own[1], other[0]]))
    assert found.exceedances is not None
    edges = found.exceedances.above()
    return adjacency_from_pairs(rows, edges.rows, edges.cols)


def ranked_entries(lists: TopLists, first: int, stop: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Each row with each of its keys of ranks first to stop − 1."""
    keys = lists.indices[:, first:stop]
    return np.repeat(np.arange(len(keys), dtype=np.int32), keys.shape[1]), keys.reshape(-1)


def _mutual_window(lists: TopLists, skipped: int, width: int) -> Adjacency:
    """B3's graph: {i, j} where y_j is among ranks p to p + m − 1 of x_i, and y_i is there for x_j."""
    count = len(lists.indices)
    rows, cols = ranked_entries(lists, skipped, skipped + width)
    there = rows.astype(np.int64) * count + cols
    back = cols.astype(np.int64) * count + rows
    mutual = np.isin(there, back, assume_unique=True)
    return adjacency_from_pairs(count, rows[mutual], cols[mutual])


def _suspects(pair: PairedRows, settings: PlanSettings, found: Candidates, backend: Backend) -> SuspectPairs | None:
    false = settings.false_negatives
    if false.fn_margin is None or found.exceedances is None:
        return None
    meets = SuspectRule(false.fn_margin, pair.diagonal()).meets(pair, found.exceedances, backend.error(pair.dim))
    return pairs_of(found.exceedances.rows[meets], found.exceedances.cols[meets], pair.rows)


def with_every_row(graph: Adjacency, pair: PairedRows, suspects: SuspectPairs | None, top: int) -> Adjacency:
    """The graph, in which each row without a neighbour has its `top` hardest columns and rows instead.

    A quantile graph leaves rows alone whose best negative lies below t (5 % at 0.999); weighted methods can then give
    them the best place there is.
    """
    alone = np.flatnonzero(graph.degrees == 0)
    if len(alone) == 0:
        return graph
    top = min(top, pair.rows - 1)
    ends = [(graph.row_of_entry(), graph.indices)]
    for side in range(2):
        keys = hardest_of(pair, side, alone, top)
        own = np.repeat(alone.astype(np.int32), top), keys.reshape(-1)
        ends.append((own[side], own[1 - side]))
    joined = adjacency_from_pairs(
        graph.nodes, np.concatenate([rows for rows, _ in ends]), np.concatenate([cols for _, cols in ends])
    )
    return joined if suspects is None else drop_pairs(joined, suspects.lower, suspects.higher)
