"""torch devices against whole-number loops; the CPU stands for a GPU, and twice for two."""

import threading

import numpy as np
import pytest
import reference
from unit_data import KINDS, make_pair

torch = pytest.importorskip("torch")

from gcbs_cli.data.grid import BYTES, FINE, Grid, make_grid
from gcbs_cli.products.device_edges import DeviceEdges, find_device_edges
from gcbs_cli.products.operations import Limits
from gcbs_cli.products.tiles import Tile, cut, run_tiles
from gcbs_cli.products.torch_device import LoadedSides, TorchBackend
from gcbs_cli.system.errors import GcbsError, OutOfDeviceMemory

ROWS = 130
TILE = 37
ONE, TWO = ["cpu"], ["cpu", "cpu"]
LONGEST_WAIT = 60.0
"""Seconds that threads wait for each other; they need milliseconds."""


class SmallDevice(TorchBackend):
    """A device that holds `most` products at once; `tried`: how many were asked for."""

    least_tile = 16

    def __init__(self, most: int, devices: list[str] = ONE) -> None:
        super().__init__(devices)
        self.most, self.freed, self.tried = most, 0, []

    def mine(self, loaded: list[LoadedSides]) -> LoadedSides:
        return Small(*super().mine(loaded).__dict__.values(), self)

    def free_memory(self) -> None:
        self.freed += 1


class Small(LoadedSides):
    """Sides of a SmallDevice."""

    def __init__(self, left, right, device, owner: SmallDevice) -> None:
        super().__init__(left, right, device)
        object.__setattr__(self, "owner", owner)

    def product(self, rows: slice, cols: slice) -> torch.Tensor:
        count = (rows.stop - rows.start) * (cols.stop - cols.start)
        self.owner.tried.append(count)
        if count > self.owner.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().product(rows, cols)

    def mirrored(self) -> "Small":
        return Small(self.right, self.left, self.device, self.owner)


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


def check_edges(found: DeviceEdges, grid: Grid, threshold: int) -> None:
    exact = numbers_of(grid)
    pairs = list(zip(found.lower.tolist(), found.higher.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) == reference.edges_above(exact, threshold)
    assert (found.lower.dtype, found.higher.dtype) == (torch.int32, torch.int32)
    assert found.entries_above == np.count_nonzero(exact > threshold)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.9, 1.0])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("devices", [ONE, TWO], ids=["one", "two"])
def test_edges_are_those_of_whole_numbers(kind: str, share: float, devices: list[str], largest: int) -> None:
    pair = make_pair(kind, 90)
    grid = make_grid(pair.x, pair.y, largest)
    threshold = int(np.quantile(numbers_of(grid), share, method="lower"))
    check_edges(find_device_edges(grid, threshold, TorchBackend(devices), tile_rows=TILE), grid, threshold)


def test_sides_that_stay_on_the_host_give_the_same_edges() -> None:
    pair = make_pair("related", ROWS)
    grid = make_grid(pair.x, pair.y)

    class Full(TorchBackend):
        def load(self, left, right):
            return [
                LoadedSides(OnlySliced(each.left), OnlySliced(each.right), each.device)
                for each in super().load(left, right)
            ]

    class OnlySliced:
        def __init__(self, rows: torch.Tensor) -> None:
            self._rows = rows

        def __getitem__(self, part: slice) -> torch.Tensor:
            assert isinstance(part, slice)
            return self._rows[part]

    threshold = int(np.quantile(numbers_of(grid), 0.9))
    check_edges(find_device_edges(grid, threshold, Full(ONE), tile_rows=TILE), grid, threshold)


@pytest.mark.parametrize("devices", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("most", [ROWS * ROWS // 2, 700])
def test_a_device_with_little_memory_takes_smaller_tiles(most: int, devices: list[str]) -> None:
    pair, backend = make_pair("related", ROWS), SmallDevice(most, devices)
    grid = make_grid(pair.x, pair.y)
    threshold = int(np.quantile(numbers_of(grid), 0.9))
    check_edges(find_device_edges(grid, threshold, backend), grid, threshold)
    assert backend.freed > 0
    if devices == ONE:
        failed = [count for count in backend.tried if count > most]
        assert len(failed) == len(set(failed)), "what did not fit once was tried again"


def test_a_device_that_holds_nothing_says_so() -> None:
    pair = make_pair("related", ROWS)
    with pytest.raises(OutOfDeviceMemory, match="memory does not suffice for even"):
        find_device_edges(make_grid(pair.x, pair.y), 0, SmallDevice(10))


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


def test_running_out_of_memory_beside_the_edges_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "cat", full)
    pair = make_pair("related", ROWS)
    with pytest.raises(
        GcbsError, match=r"^the device's memory does not suffice for [\d,]+ edges; use a higher --quant"
    ):
        find_device_edges(make_grid(pair.x, pair.y), 0, TorchBackend(ONE))
