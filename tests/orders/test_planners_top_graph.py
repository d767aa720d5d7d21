"""The graph of each row's hardest, rank windows and suspected pairs, against loops over the numbers of the grid."""

from typing import Any

import numpy as np
import pytest
from unit_data import find_hard_pairs, grid_matrix, make_pair, product_matrix

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
    grid = make_pair(kind, ROWS).grid
    found = find_threshold(grid, GraphSettings(threshold=threshold), 0, backend)
    return find_hard_pairs(grid, PlanSettings(**graph), found, backend)


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


def test_suspected_pairs_are_found_and_are_no_edges(backend: Backend) -> None:
    threshold, margin = 0.45, 0.9
    exact = grid_matrix("related", ROWS)
    weaker = np.minimum.outer(np.diag(exact), np.diag(exact))
    suspicious = (exact >= threshold) & (exact >= margin * weaker)
    wanted = {tuple(sorted((i, j))) for i, j in np.argwhere(suspicious).tolist() if i != j}
    hard = hard_pairs_of("related", backend, threshold, graph="top-m", top=6, fn_margin=margin)
    assert hard.suspects is not None
    assert set(zip(hard.suspects.lower.tolist(), hard.suspects.higher.tolist(), strict=True)) == wanted
    assert wanted
    assert not wanted & pairs_in(hard.graph)


def test_rows_without_an_edge_get_their_hardest(backend: Backend) -> None:
    exact = product_matrix("related", ROWS)
    graph = hard_pairs_of("related", backend, threshold=0.8).graph
    alone = np.flatnonzero(graph.degrees == 0).tolist()
    assert 0 < len(alone) < ROWS
    wanted = {(i, j) for i in alone for j in ranked(exact[i], i)[:TOP] + ranked(exact.T[i], i)[:TOP]}
    joined = with_every_row(graph, make_pair("related", ROWS).grid, None, TOP)
    assert pairs_in(joined) == pairs_in(graph) | {tuple(sorted(pair)) for pair in wanted}
