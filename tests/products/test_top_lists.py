"""The hardest keys of each query, against a full sort of int64 products by (value, index)."""

import numpy as np
import pytest
from unit_data import KINDS, make_pair, numbers_of

from gcbs_cli.data.grid import BYTES, FINE, make_grid
from gcbs_cli.graph.hard_pairs import find
from gcbs_cli.products import top_lists
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.products.top_lists import TopSearch, lists_by_rows
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
def test_a_pass_finds_lists_of_both_sides_and_entries_at_once(kind, largest, backend, monkeypatch):
    monkeypatch.setattr(top_lists, "SAMPLE_KEYS", 60)
    pair = make_pair(kind, 260)
    grid = make_grid(pair.x, pair.y, largest)
    numbers = numbers_of(grid)
    threshold = find_threshold(grid, GraphSettings(quantile=0.9), 0, backend)
    orders = [_sorted_keys(grid, side, offsets=False, skip_own=True) for side in (0, 1)]
    for count, tile_rows, ties in ((1, 7, True), (5, None, False), (40, 100, True), (1000, 100, False)):
        found = find(grid, threshold, backend, ties=ties, lists=count, seed=3, tile_rows=tile_rows)
        for order, lists in zip(orders, found.hardest, strict=True):
            assert np.array_equal(lists, order[:, :count])
        listed = found.reaching
        wanted = numbers >= threshold.number if ties else numbers > threshold.number
        assert np.array_equal(np.sort(listed.rows.astype(np.int64) * 260 + listed.cols), np.flatnonzero(wanted))
        assert np.array_equal(listed.values, numbers[listed.rows, listed.cols])
        assert len(found.edges()) == np.count_nonzero(numbers > threshold.number)


@pytest.mark.parametrize("skip_own", [True, False], ids=["others", "all keys"])
@pytest.mark.parametrize("kind", KINDS)
def test_lists_by_rows_hold_the_whole_similarity(kind, skip_own, backend, monkeypatch):
    monkeypatch.setattr(top_lists, "SAMPLE_KEYS", 60)
    pair = make_pair(kind, 230)
    keys = pair.y if skip_own else pair.y[:190]
    grid = make_grid(pair.x, keys, BYTES)
    order = _sorted_keys(grid, 0, offsets=True, skip_own=skip_own)
    for tile_rows in (1000, 37):
        stop = 0
        for rows, lists in lists_by_rows(grid, 9, backend, skip_own=skip_own, tile_rows=tile_rows):
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
