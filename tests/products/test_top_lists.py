"""The hardest keys of each query, against a full sort of int64 products by (value, index)."""

import numpy as np
import pytest
from unit_data import KINDS, make_pair

from gcbs_cli.data.grid import BYTES, FINE, make_grid
from gcbs_cli.products import top_lists
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.tiles import run_tiles, tiles_for
from gcbs_cli.products.top_lists import TopSearch, hardest_of, likely_candidates, lists_by_rows


def _sorted_keys(grid, side, *, offsets, skip_own):
    """For each query all its keys, hardest first, and their numbers."""
    values = grid.x.astype(np.int64) @ grid.y.T.astype(np.int64)
    if offsets:
        values += grid.y_offsets if side == 0 else grid.x_offsets[:, None]
    values = values if side == 0 else values.T
    keys = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    order = np.lexsort((keys, -values), axis=1)
    if skip_own:
        order = order[order != np.arange(len(order))[:, None]].reshape(len(order), -1)
    return order, np.take_along_axis(values, order, axis=1)


def _both_lists(grid, count, backend, tile_rows=None):
    searches = [TopSearch(grid, side, count, backend, 3) for side in range(2)]
    loaded = backend.load(grid.x, grid.y)
    tiles = tiles_for(backend, len(grid.x), len(grid.y), tile_rows)
    limits = [search.limits for search in searches]
    for _, found in run_tiles(backend, tiles, lambda tile: backend.scan(loaded, tile, limits)):
        for search, entries in zip(searches, found, strict=True):
            search.add(entries)
    return [search.lists(0, len(grid.x)) for search in searches]


@pytest.mark.parametrize("largest", [BYTES, FINE], ids=["bytes", "fine"])
@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_both_sides_are_those_of_a_full_sort(kind, largest, monkeypatch):
    monkeypatch.setattr(top_lists, "SAMPLE_KEYS", 60)
    pair = make_pair(kind, 260)
    grid = make_grid(pair.x, pair.y, largest)
    for count in (1, 5, 40, 1000):
        for side, lists in enumerate(_both_lists(grid, count, CpuBackend(2), 100)):
            order, values = _sorted_keys(grid, side, offsets=False, skip_own=True)
            assert np.array_equal(lists.indices, order[:, :count])
            assert np.array_equal(lists.values, values[:, :count])


@pytest.mark.parametrize("skip_own", [True, False], ids=["others", "all keys"])
@pytest.mark.parametrize("kind", KINDS)
def test_lists_by_rows_hold_the_whole_similarity(kind, skip_own, monkeypatch):
    monkeypatch.setattr(top_lists, "SAMPLE_KEYS", 60)
    pair = make_pair(kind, 230)
    keys = pair.y if skip_own else pair.y[:190]
    grid = make_grid(pair.x, keys, BYTES)
    order, values = _sorted_keys(grid, 0, offsets=True, skip_own=skip_own)
    for tile_rows in (1000, 37):
        stop = 0
        for rows, lists in lists_by_rows(grid, 9, CpuBackend(2), skip_own=skip_own, tile_rows=tile_rows):
            assert rows.start == stop
            stop = rows.stop
            assert np.array_equal(lists.indices, order[rows, :9])
            assert np.array_equal(lists.values, values[rows, :9])
        assert stop == 230


def test_a_few_queries_have_the_lists_of_a_pass():
    pair = make_pair("related", 150)
    some = np.array([3, 149, 20])
    for side in range(2):
        order, _ = _sorted_keys(pair.grid, side, offsets=False, skip_own=True)
        assert np.array_equal(hardest_of(pair.grid, side, some, 6), order[some, :6])
    assert hardest_of(pair.grid, 0, some, 1000).shape == (3, 149)
    assert hardest_of(pair.grid, 0, some[:0], 4).shape == (0, 4)


def test_few_candidates_are_expected_beside_those_wanted():
    for count, keys in ((16, 25_000), (64, 10**6), (1, 100)):
        assert count <= likely_candidates(count, keys) <= max(keys if keys < 3000 else 0, 8 * count + 0.003 * keys)
