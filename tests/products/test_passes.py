"""The entries above limits and the hardest keys of each query, against int64 products of the grid."""

import numpy as np
import pytest
import reference
from unit_data import KINDS, make_pair, numbers_of

from gcbs_cli.data.grid import BYTES, FINE, make_grid
from gcbs_cli.graph.hard_pairs import find
from gcbs_cli.products import byte_products, top_lists
from gcbs_cli.products.byte_products import can_multiply
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.operations import EVERYTHING, Limits, Tile, cut
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.products.top_lists import TopSearch, lists_by_rows, sample_rank
from gcbs_cli.settings.plan import GraphSettings
from gcbs_cli.system.errors import BadInput

NOTHING = -EVERYTHING


def exact_products(grid):
    return grid.x.astype(np.int64) @ grid.y.T.astype(np.int64)


def some_limits(grid, exact, generator):
    """By offsets and a number that entries equal; by row; by column, some of them letting all or nothing through."""
    t = int(np.median(exact + grid.x_offsets[:, None] + grid.y_offsets))
    rows, cols = (np.sort(exact, axis=axis).take(-5, axis=axis) for axis in (1, 0))
    rows[generator.integers(len(rows), size=3)] = NOTHING
    cols[:2], cols[-2:] = EVERYTHING, NOTHING
    return [
        Limits(np.int32(t) - grid.x_offsets, -grid.y_offsets),
        Limits(rows.astype(np.int32), np.zeros_like(grid.y_offsets)),
        Limits(np.zeros_like(grid.x_offsets), cols.astype(np.int32)),
    ]


@pytest.mark.parametrize("largest", [BYTES, FINE], ids=["bytes", "fine"])
@pytest.mark.parametrize("kind", KINDS)
def test_entries_are_those_of_an_integer_product(kind, largest, backend, monkeypatch):
    monkeypatch.setattr(byte_products, "COLUMNS_AT_ONCE", 64)
    pair = make_pair(kind, 211)
    x, y = pair.x, pair.y[:173]
    grid = make_grid(x, y, largest)
    exact = exact_products(grid)
    limits = some_limits(grid, exact, np.random.default_rng(0))
    loaded = backend.load(grid.x, grid.y)
    for tile in [*cut(211, 173), *cut(211, 173, 24, 64), Tile(slice(13, 14), slice(160, 173))]:
        for count in range(1, 4):
            for found, limit in zip(backend.scan(loaded, tile, limits[:count]), limits, strict=False):
                part = exact[tile.rows, tile.cols]
                rows, cols = np.nonzero(part > limit.row[tile.rows, None].astype(np.int64) + limit.col[tile.cols])
                order = np.lexsort((found.cols, found.rows))
                assert np.array_equal(found.rows[order], rows + tile.rows.start)
                assert np.array_equal(found.cols[order], cols + tile.cols.start)
                assert np.array_equal(found.values[order], part[rows, cols])
                assert {found.rows.dtype, found.cols.dtype, found.values.dtype} == {np.dtype(np.int32)}


def test_bytes_are_multiplied_as_bytes_where_the_processor_can(monkeypatch):
    with open("/proc/cpuinfo") as file:
        capable = "avx512_vnni" in file.read()
    for name in ("CPU_NAME", "CPU_FEATURES"):
        monkeypatch.setattr(f"numba.config.{name}", None)  # whatever the surroundings ask for
    assert byte_products._has_instruction.__wrapped__() == capable
    assert not can_multiply(np.zeros((1, 4), np.int16))
    for name, value in (("CPU_NAME", "nehalem"), ("CPU_FEATURES", "+sse3"), ("DISABLE_JIT", 1)):
        with monkeypatch.context() as asked:  # code for another processor
            asked.setattr(f"numba.config.{name}", value)
            assert not byte_products._has_instruction.__wrapped__()


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
    for count, tile_rows in ((1, 7), (5, None), (40, 100), (1000, 100)):
        backend.tile_rows = tile_rows
        found = find(grid, threshold, backend, lists=count, seed=3)
        for order, lists in zip(orders, found.hardest, strict=True):
            assert np.array_equal(lists, order[:, :count])
        listed = found.entries
        above = np.flatnonzero((numbers > threshold.number) & ~np.eye(260, dtype=bool))
        assert np.array_equal(np.sort(listed.rows.astype(np.int64) * 260 + listed.cols), above)
        assert np.array_equal(listed.values, numbers[listed.rows, listed.cols])


@pytest.mark.parametrize("skip_own", [True, False], ids=["others", "all keys"])
@pytest.mark.parametrize("kind", KINDS)
def test_lists_by_rows_hold_the_whole_similarity(kind, skip_own, backend, monkeypatch):
    monkeypatch.setattr(top_lists, "SAMPLE_KEYS", 60)
    pair = make_pair(kind, 230)
    keys = pair.y if skip_own else pair.y[:190]
    grid = make_grid(pair.x, keys, BYTES)
    order = _sorted_keys(grid, 0, offsets=True, skip_own=skip_own)
    for tile_rows in (1000, 37):
        stop, backend.tile_rows = 0, tile_rows
        for rows, lists in lists_by_rows(grid, 9, backend, skip_own=skip_own):
            assert rows.start == stop
            stop = rows.stop
            assert np.array_equal(lists, order[rows, :9])
        assert stop == 230


def test_a_pass_says_how_far_it_is_and_ends_where_there_is_no_room_for_what_it_finds(backend):
    grid, seen = make_pair("related", 150).grid, []
    threshold, backend.tile_rows = find_threshold(grid, GraphSettings(quantile=0.9), 0, backend), 50
    most = np.count_nonzero(reference.off_diagonal(numbers_of(grid)) > threshold.number)
    find(grid, threshold, backend, most=most, progress=lambda *said: seen.append(said))
    assert seen == [(rows * 150, 150 * 150) for rows in (50, 100, 150)]
    with pytest.raises(BadInput, match=f"memory has room for {most - 1:,}; use a smaller --per-row"):
        find(grid, threshold, backend, most=most - 1)


@pytest.mark.parametrize("count", [1, 67, 100])
@pytest.mark.parametrize("side", [0, 1])
def test_few_candidates_but_enough_of_them_are_above_the_likely_limits(count, side, monkeypatch):
    monkeypatch.setattr(top_lists, "SAMPLE_KEYS", 60)
    grid, backend, in_full = make_pair("random", 260).grid, CpuBackend(), []
    search = TopSearch(grid, side, count)
    limits = search.likely_limits(backend, 0)
    above = (exact_products(grid) > limits.row[:, None].astype(np.int64) + limits.col).sum(axis=1 - side)
    size, rank = sample_rank(count, 260)
    expected = 260 if 2 * rank > size else rank * 260 // size
    assert above.mean() == pytest.approx(expected, rel=0.12)
    assert (above > count).mean() > 0.99
    found = backend.scan(backend.load(grid.x, grid.y), *cut(260, 260), [limits])
    monkeypatch.setattr(search, "of_few", lambda queries: in_full.extend(queries) or np.empty((0, count)))
    heaps = search.heaps(260)
    search.offer(heaps, found[0])
    search.lists(heaps)
    assert in_full == []  # no list but those that lack candidates costs products with all keys


def test_a_few_queries_have_the_lists_of_a_pass():
    grid, some = make_pair("related", 150).grid, np.array([3, 149, 20])
    for side in range(2):
        order = _sorted_keys(grid, side, offsets=False, skip_own=True)
        assert np.array_equal(TopSearch(grid, side, 6).of_few(some), order[some, :6])
    assert TopSearch(grid, 0, 1000).of_few(some).shape == (3, 149)
    assert TopSearch(grid, 0, 4).of_few(some[:0]).shape == (0, 4)
