"""The graph of each row's hardest, rank windows and edges that are too hard, against loops over all entries."""

from typing import Any

import numpy as np
import pytest
from unit_data import find_hard_pairs, make_pair, product_matrix

from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.graph.hard_pairs import HardPairs, with_every_row
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.settings.plan import GraphSettings, PlanSettings

ROWS, TOP = 80, 3


def ranked(values: np.ndarray, own: int) -> list[int]:
    """Other indices by falling value, equal ones by rising index."""
    return [j for j in sorted(range(len(values)), key=lambda j: (-values[j], j)) if j != own]


def pairs_in(graph: Adjacency) -> set[tuple[int, int]]:
    return set(zip(*(side.tolist() for side in graph.pairs()), strict=True))


def hard_pairs_of(kind: str, backend: Backend, threshold: float | None = None, **graph: Any) -> HardPairs:
    pair = make_pair(kind, ROWS)
    found = find_threshold(pair.grid, GraphSettings(threshold=threshold), 0, backend)
    return find_hard_pairs(pair, PlanSettings(**graph), found, backend)


@pytest.mark.parametrize("kind", ["related", "at-threshold"])
def test_top_m_graph_is_the_union_of_both_directions(kind: str, backend: Backend) -> None:
    exact = product_matrix(kind, ROWS)
    wanted = {
        tuple(sorted((i, j))) for i in range(ROWS) for j in ranked(exact[i], i)[:TOP] + ranked(exact.T[i], i)[:TOP]
    }
    assert pairs_in(hard_pairs_of(kind, backend, graph="top-m", top=TOP).graph) == wanted


def test_rank_window_keeps_mutual_ranks_only(backend: Backend) -> None:
    skipped, width = 2, 9
    exact = product_matrix("related", ROWS)
    window = [set(ranked(exact[i], i)[skipped : skipped + width]) for i in range(ROWS)]
    wanted = {(i, j) for i in range(ROWS) for j in window[i] if i < j and i in window[j]}
    assert wanted
    assert pairs_in(hard_pairs_of("related", backend, rank_window=(skipped, width)).graph) == wanted


@pytest.mark.parametrize("graph", [{"graph": "top-m", "top": 6}, {"threshold": 0.34}], ids=["top-m", "quantile"])
def test_edges_that_reach_the_margin_of_either_positive_are_dropped_whatever_t(backend: Backend, graph: Any) -> None:
    margin, pair = 0.7, make_pair("related", ROWS)
    exact = pair.x.astype(np.float64) @ pair.y.astype(np.float64).T
    weaker = np.minimum.outer(np.diag(exact), np.diag(exact))
    every = pairs_in(hard_pairs_of("related", backend, **graph).graph)
    wanted = {(i, j) for i, j in every if max(exact[i, j], exact[j, i]) < margin * weaker[i, j]}
    hard = hard_pairs_of("related", backend, **graph, fn_margin=margin)
    assert pairs_in(hard.graph) == wanted
    assert 20 < len(wanted) < len(every) - 20
    assert hard.weighted is not None
    assert hard.weighted.too_hard_inside(np.zeros(ROWS, np.int64)) == len(every - wanted)


def test_rows_without_an_edge_get_their_hardest(backend: Backend) -> None:
    exact = product_matrix("related", ROWS)
    graph = hard_pairs_of("related", backend, threshold=0.8).graph
    alone = np.flatnonzero(graph.degrees == 0).tolist()
    assert 0 < len(alone) < ROWS
    wanted = {(i, j) for i in alone for j in ranked(exact[i], i)[:TOP] + ranked(exact.T[i], i)[:TOP]}
    joined = with_every_row(graph, make_pair("related", ROWS).grid, TOP)
    assert pairs_in(joined) == pairs_in(graph) | {tuple(sorted(pair)) for pair in wanted}
