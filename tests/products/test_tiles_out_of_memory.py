"""A device whose memory does not hold a tile: smaller tiles, the same result, and one line where nothing fits."""

import numpy as np
import pytest
from unit_data import grid_matrix, make_pair

from gcbs_cli.graph.hard_pairs import find
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.sample import draw_sample
from gcbs_cli.products.threshold import estimate, find_threshold
from gcbs_cli.products.tiles import Tile, run_tiles
from gcbs_cli.products.top_lists import lists_by_rows
from gcbs_cli.settings.plan import GraphSettings
from gcbs_cli.system.errors import GcbsError

ROWS = 150


class NoRoom(Exception):
    """What a device raises."""


class SmallDevice(CpuBackend):
    """A device that holds `most` products at once."""

    memory_errors = (NoRoom,)
    least_tile = 16

    def __init__(self, most, workers=1):
        super().__init__(workers, byte_products=False)
        self.most, self.tried, self.freed = most, [], 0

    def free_memory(self):
        self.freed += 1

    def product(self, loaded, rows, cols):
        size = (rows.stop - rows.start) * (cols.stop - cols.start)
        self.tried.append(size)
        if size > self.most:
            raise NoRoom
        return super().product(loaded, rows, cols)


def found_by(device, **options):
    pair = make_pair("related", ROWS)
    threshold = find_threshold(pair.grid, GraphSettings(threshold=0.5), 0, device)
    return find(pair.grid, threshold, device, **options)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("most", [ROWS * ROWS - 1, 700, 20])
def test_the_entries_are_the_same(most, workers):
    exact = grid_matrix("related", ROWS)
    device = SmallDevice(most, workers)
    edges = found_by(device).edges()
    places = np.sort(edges.rows.astype(np.int64) * ROWS + edges.cols)
    assert np.array_equal(places, np.flatnonzero(exact > 0.5))
    assert device.freed > 0


def test_what_did_not_fit_once_is_not_tried_again():
    device = SmallDevice(700)
    found_by(device, tile_rows=50)
    failed = [count for count in device.tried if count > device.most]
    assert len(failed) == len(set(failed)) == 4  # 50 × 150, and three halvings


def test_lists_of_the_hardest_are_the_same():
    mine, theirs = (found_by(backend, lists=5) for backend in (SmallDevice(3000), CpuBackend(1)))
    for side in ("x", "y"):
        assert np.array_equal(getattr(mine, side).indices, getattr(theirs, side).indices)
        assert np.array_equal(getattr(mine, side).values, getattr(theirs, side).values)


def test_lists_by_rows_are_the_same():
    grid = make_pair("related", ROWS).grid
    mine, theirs = (
        np.concatenate([lists.indices for _, lists in lists_by_rows(grid, 5, backend)])
        for backend in (SmallDevice(700), CpuBackend(1))
    )
    assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("method", ["chunks", "exact"])
def test_quantiles_are_the_same(method):
    grid = make_pair("related", ROWS).grid
    sample = draw_sample(grid, 0.9, 0, least=32, most=32)
    mine, theirs = (
        estimate(grid, 0.9, method, 0, backend, sample=sample, chunk_rows=40)
        for backend in (SmallDevice(700), CpuBackend(1))
    )
    assert mine == theirs


def test_a_device_that_holds_nothing_says_so():
    with pytest.raises(GcbsError, match="memory does not suffice for even"):
        found_by(SmallDevice(10))


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    def fail(tile):
        raise RuntimeError("unlike")

    with pytest.raises(RuntimeError, match="unlike"):
        list(run_tiles(SmallDevice(100), [Tile(slice(0, 9), slice(0, 9))], fail))


@pytest.mark.parametrize("whole_rows", [False, True])
@pytest.mark.parametrize("rows", [2, 3, 7])
@pytest.mark.parametrize("cols", [2, 7, 9])
def test_halves_are_the_tile(rows, cols, whole_rows):
    tile = Tile(slice(3, 3 + rows), slice(5, 5 + cols))
    covered = np.zeros((20, 20), int)
    for half in tile.halves(whole_rows=whole_rows):
        assert half.cols == tile.cols or not whole_rows
        assert half.entries > 0
        covered[half.rows, half.cols] += 1
    assert covered[tile.rows, tile.cols].all()
    assert covered.sum() == tile.entries
