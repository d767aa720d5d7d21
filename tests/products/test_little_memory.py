"""A device whose memory does not hold a tile: smaller tiles, the same result, and one line where nothing fits."""

import gc
import weakref

import numpy as np
import pytest
from unit_data import grid_matrix, make_pair

from gcbs_cli.graph.hard_pairs import find
from gcbs_cli.products import threshold
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.operations import Tile
from gcbs_cli.products.sums import pair_sums
from gcbs_cli.products.suspects import Suspicion
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.products.top_lists import lists_by_rows
from gcbs_cli.settings.plan import GraphSettings
from gcbs_cli.system.errors import OutOfDeviceMemory

ROWS = 150
GRID = make_pair("related", ROWS).grid


class NoRoom(Exception):
    """What a device raises."""


class SmallDevice(CpuBackend):
    """A device that holds `most` products at once."""

    memory_errors = (NoRoom,)

    def __init__(self, most, workers=1):
        super().__init__(workers)
        self.most, self.tried = most, []

    def load(self, left, right):
        return (*super().load(left, right)[:2], None)  # without products of bytes

    def product(self, loaded, tile, sides=(0, 1)):
        self.tried.append(tile.entries)
        if tile.entries > self.most:
            raise NoRoom
        return super().product(loaded, tile, sides)


def test_a_pass_lets_go_of_its_data_before_garbage_is_collected():
    device = CpuBackend(1)
    gc.disable()
    try:
        data = type("Data", (), {})()
        gone = weakref.ref(data)
        assert list(device.run([Tile(slice(0, 2), slice(0, 2))], lambda tile, data=data: tile.height))
        del data
        assert gone() is None
    finally:
        gc.enable()


def found_by(device, **options):
    return find(GRID, find_threshold(GRID, GraphSettings(threshold=0.5), 0, device), device, **options)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("most", [ROWS * ROWS - 1, 700, ROWS])
def test_the_entries_are_the_same(most, workers):
    device = SmallDevice(most, workers)
    edges = found_by(device).entries
    places = np.sort(edges.rows.astype(np.int64) * ROWS + edges.cols)
    hard = (grid_matrix("related", ROWS) > 0.5) & ~np.eye(ROWS, dtype=bool)
    assert np.array_equal(places, np.flatnonzero(hard))
    assert max(device.tried) > most


def test_what_did_not_fit_once_is_not_tried_again():
    device = SmallDevice(700)
    device.tile_rows = 50
    found_by(device)
    failed = [count for count in device.tried if count > device.most]
    assert len(failed) == len(set(failed)) == 4  # 50, 25, 13 and 7 rows


def lists_of_a_pass(backend):
    return found_by(backend, lists=5).hardest


def streamed_lists(backend):
    return [np.concatenate([lists for _, lists in lists_by_rows(GRID, 5, backend)])]


def quantiles(backend):
    asked = [GraphSettings(quantile=0.9, quantile_method=method) for method in ("chunks", "exact")]
    with pytest.MonkeyPatch.context() as patch:
        for name, rows in {"LEAST_ROWS": 32, "MOST_ROWS": 32, "CHUNK_ROWS": 40}.items():
            patch.setattr(threshold, name, rows)
        return [find_threshold(GRID, each, 0, backend).number for each in asked]


def sums_of_a_report(backend):
    pair = make_pair("related", ROWS)
    suspicion = Suspicion.of(pair.diagonal(), 0.5, 0.95)
    sums = pair_sums(pair, [0.05], backend, suspicion, hardest=9, unsuspected=True, views=True)
    return [table for side in sums.values() for table in vars(side).values()]


@pytest.mark.parametrize("work", [lists_of_a_pass, streamed_lists, quantiles, sums_of_a_report])
def test_lists_quantiles_and_sums_are_the_same(work):
    for mine, theirs in zip(work(SmallDevice(700, 3)), work(CpuBackend(1)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_a_device_that_holds_nothing_says_so_and_other_errors_are_not_taken_for_it():
    with pytest.raises(OutOfDeviceMemory, match=r"memory does not suffice for even 150 products.*use a higher --quant"):
        found_by(SmallDevice(10))

    def fail(tile):
        raise RuntimeError("unlike")

    with pytest.raises(RuntimeError, match="unlike"):
        list(SmallDevice(100).run([Tile(slice(0, 9), slice(0, 9))], fail))
