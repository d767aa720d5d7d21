"""The graph of each row's hardest, rank windows and suspected pairs, against float64 loops."""

import numpy as np
import pytest
from unit_data import exact_matrix, make_pair

from gcbs_cli.graph.hard_pairs import find_hard_pairs, with_every_row
from gcbs_cli.products.backend import Backend
from gcbs_cli.products.top_candidates import find_candidates
from gcbs_cli.settings.plan import FalseNegativeSettings, PlanSettings

KINDS = ["related", "duplicates", "all-equal", "cosine-1-1e-7", "at-threshold", "hubs", "one-dimension"]


def ranked(values: np.ndarray, own: int) -> list[int]:
    """Other indices by falling value, equal ones by rising index."""
    return [j for j in sorted(range(len(values)), key=lambda j: (-values[j], j)) if j != own]


@pytest.mark.parametrize("tile_rows", [None, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_lists_are_the_hardest_by_value_and_index(kind: str, tile_rows: int | None, backend: Backend) -> None:
    rows, top = 90, 5
    exact = exact_matrix(kind, rows)
    found = find_candidates(make_pair(kind, rows), 0.3, top, backend, tile_rows=tile_rows)
    for lists, values in ((found.x, exact), (found.y, exact.T)):
        assert lists is not None
        assert lists.indices.tolist() == [ranked(values[i], i)[:top] for i in range(rows)]
        assert np.array_equal(lists.values, np.take_along_axis(values, lists.indices.astype(int), axis=1))
    assert found.exceedances is not None
    assert len(found.exceedances.rows) == np.count_nonzero(exact >= 0.3)


def edges_of(settings: PlanSettings, kind: str, rows: int, backend: Backend, threshold: float = 0.5) -> set:
    hard = find_hard_pairs(make_pair(kind, rows), settings, threshold, backend)
    return set(zip(*(side.tolist() for side in hard.graph.pairs()), strict=True))


@pytest.mark.parametrize("kind", ["related", "at-threshold"])
def test_top_m_graph_is_the_union_of_both_directions(kind: str, backend: Backend) -> None:
    rows, top = 80, 3
    exact = exact_matrix(kind, rows)
    wanted = {
        tuple(sorted((i, j))) for i in range(rows) for j in ranked(exact[i], i)[:top] + ranked(exact.T[i], i)[:top]
    }
    assert edges_of(PlanSettings.of(graph="top-m", top=top), kind, rows, backend) == wanted


def test_rank_window_keeps_mutual_ranks_only(backend: Backend) -> None:
    rows, skipped, width = 80, 2, 9
    exact = exact_matrix("related", rows)
    window = [set(ranked(exact[i], i)[skipped : skipped + width]) for i in range(rows)]
    wanted = {(i, j) for i in range(rows) for j in window[i] if i < j and i in window[j]}
    settings = PlanSettings.of(rank_window=(skipped, width))
    assert wanted
    assert edges_of(settings, "related", rows, backend) == wanted


def test_suspected_pairs_are_found_and_are_no_edges(backend: Backend) -> None:
    rows, threshold, margin = 80, 0.45, 0.9
    exact = exact_matrix("related", rows)
    weaker = np.minimum.outer(np.diag(exact), np.diag(exact))
    suspicious = (exact >= threshold) & (exact >= margin * weaker)
    wanted = {tuple(sorted(pair)) for pair in np.argwhere(suspicious).tolist()}
    wanted = {(i, j) for i, j in wanted if i != j}
    false = FalseNegativeSettings(fn_margin=margin)
    settings = PlanSettings.of(graph="top-m", top=6, false_negatives=false)
    hard = find_hard_pairs(make_pair("related", rows), settings, threshold, backend)
    assert hard.suspects is not None
    assert set(zip(hard.suspects.lower.tolist(), hard.suspects.higher.tolist(), strict=True)) == wanted
    assert wanted
    assert not wanted & set(zip(*(side.tolist() for side in hard.graph.pairs()), strict=True))


def test_rows_without_an_edge_get_their_hardest(backend: Backend) -> None:
    rows, top = 80, 3
    exact = exact_matrix("related", rows)
    hard = find_hard_pairs(make_pair("related", rows), PlanSettings(), 0.8, backend)
    alone = np.flatnonzero(hard.graph.degrees == 0)
    joined = with_every_row(hard.graph, make_pair("related", rows), None, top)
    assert 0 < len(alone) < rows
    wanted = {(i, j) for i in alone.tolist() for j in ranked(exact[i], i)[:top] + ranked(exact.T[i], i)[:top]}
    found = set(zip(*(side.tolist() for side in joined.pairs()), strict=True))
    before = set(zip(*(side.tolist() for side in hard.graph.pairs()), strict=True))
    assert found == before | {tuple(sorted(pair)) for pair in wanted}
