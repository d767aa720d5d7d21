"""The hardest keys of each query, against a full sort of int64 products by (value, index)."""

import numpy as np
import pytest
from unit_data import KINDS, make_pair

from gcbs_cli.data.grid import BYTES, FINE, make_grid
from gcbs_cli.graph.hard_pairs import find
from gcbs_cli.products import top_lists
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.products.top_lists import TopSearch, likely_candidates, lists_by_rows
from gcbs_cli.settings.plan import GraphSettings


def _sorted_keys(grid, side, *, offsets, skip_own):
    """For each query all its keys, hardest first."""
    values = grid.x.astype(np.int64) @ grid.y.T.astype(np.int64)
    if offsets:
        values += grid.y_offsets if side == 0 else grid.x_offsets[:, None]
    values = values if side == 0 else values.T
    keys = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    order = np.lexsort((keys, -values), axis=1)
    if skip_own:
        order = order[order != np.arange(len(order))[:, None]].reshape(len(order), -1)
    return order


@pytest.mark.parametrize("largest", [BYTES, FINE], ids=["bytes", "fine"])
@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_both_sides_are_those_of_a_full_sort(kind, largest, monkeypatch):
    monkeypatch.setattr(top_lists, "SAMPLE_KEYS", 60)
    pair = make_pair(kind, 260)
    grid = make_grid(pair.x, pair.y, largest)
    threshold = find_threshold(grid, GraphSettings(threshold=0.9), 0, CpuBackend(2))
    for count in (1, 5, 40, 1000):
        found = find(grid, threshold, CpuBackend(2), above=False, lists=count, seed=3, tile_rows=100)
        for side, lists in enumerate(found.hardest):
            assert np.array_equal(lists, _sorted_keys(grid, side, offsets=False, skip_own=True)[:, :count])


@pytest.mark.parametrize("skip_own", [True, False], ids=["others", "all keys"])
@pytest.mark.parametrize("kind", KINDS)
def test_lists_by_rows_hold_the_whole_similarity(kind, skip_own, monkeypatch):
    monkeypatch.setattr(top_lists, "SAMPLE_KEYS", 60)
    pair = make_pair(kind, 230)
    keys = pair.y if skip_own else pair.y[:190]
    grid = make_grid(pair.x, keys, BYTES)
    order = _sorted_keys(grid, 0, offsets=True, skip_own=skip_own)
    for tile_rows in (1000, 37):
        stop = 0
        for rows, lists in lists_by_rows(grid, 9, CpuBackend(2), skip_own=skip_own, tile_rows=tile_rows):
            assert rows.start == stop
            stop = rows.stop
            assert np.array_equal(lists, order[rows, :9])
        assert stop == 230


def test_a_few_queries_have_the_lists_of_a_pass():
    grid, some = make_pair("related", 150).grid, np.array([3, 149, 20])
    for side in range(2):
        order = _sorted_keys(grid, side, offsets=False, skip_own=True)
        assert np.array_equal(TopSearch(grid, side, 6).of_few(some), order[some, :6])
    assert TopSearch(grid, 0, 1000).of_few(some).shape == (3, 149)
    assert TopSearch(grid, 0, 4).of_few(some[:0]).shape == (0, 4)


def test_few_candidates_are_expected_beside_those_wanted():
    for count, keys in ((16, 25_000), (64, 10**6), (1, 100)):
        assert count <= likely_candidates(count, keys) <= max(keys if keys < 3000 else 0, 8 * count + 0.003 * keys)
