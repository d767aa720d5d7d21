"""torch devices against whole-number loops; the CPU stands for a GPU, and twice for two."""

import threading

import numpy as np
import pytest
from unit_data import KINDS, make_pair

torch = pytest.importorskip("torch")

from gcbs_cli.data.grid import BYTES, FINE, Grid, make_grid
from gcbs_cli.products.operations import Limits
from gcbs_cli.products.tiles import Tile, cut, run_tiles
from gcbs_cli.products.torch_device import TorchBackend

ROWS = 130
TILE = 37
ONE, TWO = ["cpu"], ["cpu", "cpu"]
LONGEST_WAIT = 60.0
"""Seconds that threads wait for each other; they need milliseconds."""


def numbers_of(grid: Grid) -> np.ndarray:
    """(N, M) int64: the products with their offsets."""
    products = grid.x.astype(np.int64) @ grid.y.astype(np.int64).T
    return products + grid.x_offsets[:, None] + grid.y_offsets


@pytest.fixture(params=[BYTES, FINE], ids=["int8", "int16"])
def largest(request: pytest.FixtureRequest) -> int:
    return request.param


def in_order(entries) -> list[tuple[int, int, int]]:
    return sorted(zip(entries.rows.tolist(), entries.cols.tolist(), entries.values.tolist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_entries_of_tiles_are_those_of_whole_numbers(kind: str, largest: int) -> None:
    pair, backend = make_pair(kind, ROWS), TorchBackend(ONE)
    grid = make_grid(pair.x, pair.y, largest)
    exact, products = numbers_of(grid), grid.x.astype(np.int64) @ grid.y.astype(np.int64).T
    limit = int(np.quantile(exact, 0.9, method="lower"))
    rows = np.random.default_rng(0).integers(-1000, 1000, size=ROWS).astype(np.int32)
    limits = [Limits(np.int32(limit) - grid.x_offsets, -grid.y_offsets), Limits(rows, np.zeros(ROWS, np.int32))]
    loaded, found = backend.load(grid.x, grid.y), [[], []]
    for _, parts in run_tiles(backend, cut(ROWS, ROWS, TILE, 29), lambda tile: backend.scan(loaded, tile, limits)):
        for entries, part in zip(found, parts, strict=True):
            entries += in_order(part)
    for entries, above in zip(found, (exact > limit, products > rows[:, None]), strict=True):
        i, j = np.nonzero(above)
        assert sorted(entries) == sorted(zip(i.tolist(), j.tolist(), products[i, j].tolist(), strict=True))


@pytest.mark.parametrize("dim", [1, 3, 64, 100, 768])
@pytest.mark.parametrize("shape", [(1, 1), (16, 5), (17, 64), (40, 33)])
def test_products_of_bytes_are_exact_whatever_their_shape(dim: int, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(dim)
    left, right = (rng.integers(-127, 128, size=(rows, -(-dim // 4) * 4), dtype=np.int8) for rows in shape)
    backend = TorchBackend(ONE)
    found = backend.product(backend.load(left, right), slice(0, shape[0]), slice(0, shape[1]))
    assert np.array_equal(found.numpy(), left.astype(np.int64) @ right.astype(np.int64).T)


@pytest.mark.parametrize("offsets", [False, True])
def test_the_value_of_a_rank(largest: int, offsets: bool) -> None:
    pair = make_pair("hubs", ROWS)
    grid, backend = make_grid(pair.x, pair.y, largest), TorchBackend(ONE)
    products = grid.x.astype(np.int64) @ grid.y.astype(np.int64).T
    ranked = -np.sort(-(products + grid.y_offsets if offsets else products), axis=1)
    loaded = backend.load(grid.x, grid.y)
    for rank in (1, 7, ROWS):
        found = backend.kth(loaded, slice(3, 90), rank, grid.y_offsets if offsets else None)
        assert np.array_equal(found, ranked[3:90, rank - 1])


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    def fail(tile: Tile) -> None:
        raise RuntimeError("unlike")

    with pytest.raises(RuntimeError, match="unlike"):
        list(run_tiles(TorchBackend(ONE), [Tile(slice(0, 9), slice(0, 9))], fail))


@pytest.mark.parametrize("whole_rows", [False, True])
@pytest.mark.parametrize("rows", [2, 3, 7])
@pytest.mark.parametrize("cols", [2, 7, 9])
def test_halves_are_the_tile(rows: int, cols: int, whole_rows: bool) -> None:
    tile = Tile(slice(3, 3 + rows), slice(5, 5 + cols))
    covered = np.zeros((20, 20), int)
    for half in tile.halves(whole_rows=whole_rows):
        assert half.cols == tile.cols or not whole_rows
        assert half.entries > 0
        covered[half.rows, half.cols] += 1
    assert covered[tile.rows, tile.cols].all()
    assert covered.sum() == tile.entries


def test_every_device_makes_tiles_of_a_pass() -> None:
    together, used = threading.Barrier(2), set()
    backend = TorchBackend(TWO)
    loaded = backend.load(np.eye(8, dtype=np.float32), np.eye(8, dtype=np.float32))

    def work(tile: Tile) -> None:
        mine = id(backend.mine(loaded))
        if mine not in used:
            used.add(mine)
            together.wait(LONGEST_WAIT)

    list(run_tiles(backend, cut(8, 8, 1, 8), work))
    assert used == {id(each) for each in loaded}
