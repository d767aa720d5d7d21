"""A device whose memory does not hold a tile: smaller tiles, the same result, and one line where nothing fits."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported

import numpy as np
import pytest
from unit_data import exact_matrix, make_pair

torch = pytest.importorskip("torch")

from gcbs_cli.products import quantile, quantile_estimate, quantile_passes, quantile_sample, tiles
from gcbs_cli.products.edges import find_exceedances
from gcbs_cli.products.nearest import nearest_keys
from gcbs_cli.products.numpy_backend import NumpyBackend
from gcbs_cli.products.tiles import Tile, run_tiles
from gcbs_cli.products.top_candidates import find_candidates
from gcbs_cli.products.torch_backend import TorchBackend
from gcbs_cli.system.errors import GcbsError, OutOfDeviceMemory

ROWS = 150


class SmallDevice(TorchBackend):
    """A device that holds `most` products at once."""

    def __init__(self, most, workers=1):
        super().__init__("cpu")
        self.most, self.workers, self.tried, self.freed = most, workers, [], 0

    def free_memory(self):
        self.freed += 1

    def product(self, x, y, rows, cols):
        product = super().product(x, y, rows, cols)
        self.tried.append(product.numel())
        if product.numel() > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return product


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "LEAST_TILE", 16)


def entries(found):
    order = np.lexsort((found.cols, found.rows))
    return found.rows[order], found.cols[order]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("most", [ROWS * ROWS - 1, 700, 20])
def test_the_entries_are_the_same(most, workers):
    pair, exact = make_pair("related", ROWS), exact_matrix("related", ROWS)
    device = SmallDevice(most, workers)
    found = find_exceedances(pair, 0.5, device)
    rows, cols = np.nonzero(exact >= 0.5)
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(entries(found), (rows, cols), strict=True))
    assert device.freed > 0


def test_what_did_not_fit_once_is_not_tried_again():
    device = SmallDevice(700)
    find_exceedances(make_pair("related", ROWS), 0.5, device, tile_rows=50)
    failed = [count for count in device.tried if count > device.most]
    assert len(failed) == len(set(failed)) == 4  # 50 × 150, and three halvings


def test_lists_of_the_hardest_are_the_same():
    pair = make_pair("related", ROWS)
    mine, theirs = (find_candidates(pair, 0.5, 5, backend) for backend in (SmallDevice(3000), NumpyBackend(1)))
    for side in ("x", "y"):
        assert np.array_equal(getattr(mine, side).indices, getattr(theirs, side).indices)
        assert np.array_equal(getattr(mine, side).values, getattr(theirs, side).values)


def test_nearest_rows_are_the_same():
    pair = make_pair("related", ROWS)
    mine, theirs = (nearest_keys(pair, 5, backend) for backend in (SmallDevice(700), NumpyBackend(1)))
    assert np.array_equal(mine, theirs)
    with pytest.raises(OutOfDeviceMemory):
        nearest_keys(pair, 5, SmallDevice(100))  # less than a row


@pytest.mark.parametrize("method", ["chunks", "exact"])
def test_quantiles_are_the_same(method, monkeypatch):
    monkeypatch.setattr(quantile_passes, "CHUNK_ROWS", 40)
    monkeypatch.setattr(quantile_sample, "LEAST_SAMPLE_ROWS", 32)
    monkeypatch.setattr(quantile_sample, "MOST_SAMPLE_ROWS", 32)
    pair = make_pair("related", ROWS)
    mine, theirs = (
        quantile.estimate_quantile(pair, 0.9, method=quantile_estimate.QuantileMethod(method), backend=backend)
        for backend in (SmallDevice(700), NumpyBackend(1))
    )
    assert mine == theirs


def test_a_device_that_holds_nothing_says_so():
    with pytest.raises(GcbsError, match="memory does not suffice for even"):
        find_exceedances(make_pair("related", ROWS), 0.5, SmallDevice(10))


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
