"""The graph of each row's hardest, rank windows and suspected pairs, against loops over the numbers of the grid."""

import numpy as np
import pytest
from unit_data import find_hard_pairs, grid_matrix, make_pair, numbers_of, product_matrix

from gcbs_cli.graph.hard_pairs import find, with_every_row
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.settings.plan import GraphSettings, PlanSettings

KINDS = ["related", "duplicates", "all-equal", "cosine-1-1e-7", "at-threshold", "hubs", "one-dimension"]


def ranked(values: np.ndarray, own: int) -> list[int]:
    """Other indices by falling value, equal ones by rising index."""
    return [j for j in sorted(range(len(values)), key=lambda j: (-values[j], j)) if j != own]


@pytest.mark.parametrize("tile_rows", [None, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_finds_lists_and_entries_at_once(kind: str, tile_rows: int | None, backend: Backend) -> None:
    rows, top = 90, 5
    pair, products = make_pair(kind, rows), product_matrix(kind, rows)
    numbers = numbers_of(pair.grid)
    threshold = find_threshold(pair.grid, GraphSettings(quantile=0.9), 0, backend)
    for ties in (True, False):
        found = find(pair.grid, threshold, backend, ties=ties, lists=top, tile_rows=tile_rows)
        for lists, values in zip(found.hardest, (products, products.T), strict=True):
            assert lists.tolist() == [ranked(values[i], i)[:top] for i in range(rows)]
        listed = found.reaching
        places = np.sort(listed.rows.astype(np.int64) * rows + listed.cols)
        wanted = numbers >= threshold.number if ties else numbers > threshold.number
        assert np.array_equal(places, np.flatnonzero(wanted))
        assert np.array_equal(listed.values, numbers[listed.rows, listed.cols])
        assert len(found.edges()) == np.count_nonzero(numbers > threshold.number)


def edges_of(kind: str, rows: int, backend: Backend, **graph: object) -> set:
    grid, settings = make_pair(kind, rows).grid, PlanSettings(**graph)
    hard = find_hard_pairs(grid, settings, find_threshold(grid, settings, 0, backend), backend)
    return set(zip(*(side.tolist() for side in hard.graph.pairs()), strict=True))


@pytest.mark.parametrize("kind", ["related", "at-threshold"])
def test_top_m_graph_is_the_union_of_both_directions(kind: str, backend: Backend) -> None:
    rows, top = 80, 3
    exact = product_matrix(kind, rows)
    wanted = {
        tuple(sorted((i, j))) for i in range(rows) for j in ranked(exact[i], i)[:top] + ranked(exact.T[i], i)[:top]
    }
    assert edges_of(kind, rows, backend, graph="top-m", top=top) == wanted


def test_rank_window_keeps_mutual_ranks_only(backend: Backend) -> None:
    rows, skipped, width = 80, 2, 9
    exact = product_matrix("related", rows)
    window = [set(ranked(exact[i], i)[skipped : skipped + width]) for i in range(rows)]
    wanted = {(i, j) for i in range(rows) for j in window[i] if i < j and i in window[j]}
    assert wanted
    assert edges_of("related", rows, backend, rank_window=(skipped, width)) == wanted


def test_suspected_pairs_are_found_and_are_no_edges(backend: Backend) -> None:
    rows, threshold, margin = 80, 0.45, 0.9
    exact = grid_matrix("related", rows)
    weaker = np.minimum.outer(np.diag(exact), np.diag(exact))
    suspicious = (exact >= threshold) & (exact >= margin * weaker)
    wanted = {tuple(sorted(pair)) for pair in np.argwhere(suspicious).tolist()}
    wanted = {(i, j) for i, j in wanted if i != j}
    grid = make_pair("related", rows).grid
    t = find_threshold(grid, GraphSettings(threshold=threshold), 0, backend)
    settings = PlanSettings(graph="top-m", top=6, fn_margin=margin)
    hard = find_hard_pairs(grid, settings, t, backend)
    assert hard.suspects is not None
    assert set(zip(hard.suspects.lower.tolist(), hard.suspects.higher.tolist(), strict=True)) == wanted
    assert wanted
    assert not wanted & set(zip(*(side.tolist() for side in hard.graph.pairs()), strict=True))


def test_rows_without_an_edge_get_their_hardest(backend: Backend) -> None:
    rows, top = 80, 3
    grid, exact = make_pair("related", rows).grid, product_matrix("related", rows)
    t = find_threshold(grid, GraphSettings(threshold=0.8), 0, backend)
    hard = find_hard_pairs(grid, PlanSettings(), t, backend)
    alone = np.flatnonzero(hard.graph.degrees == 0)
    joined = with_every_row(hard.graph, grid, None, top)
    assert 0 < len(alone) < rows
    wanted = {(i, j) for i in alone.tolist() for j in ranked(exact[i], i)[:top] + ranked(exact.T[i], i)[:top]}
    found = set(zip(*(side.tolist() for side in joined.pairs()), strict=True))
    before = set(zip(*(side.tolist() for side in hard.graph.pairs()), strict=True))
    assert found == before | {tuple(sorted(pair)) for pair in wanted}
