"""torch devices against whole-number loops; the CPU stands for a GPU, and twice for two."""

import threading

import numpy as np
import pytest
import reference
from unit_data import KINDS, make_pair, numbers_of

torch = pytest.importorskip("torch")

from gcbs_cli.data.grid import BYTES, FINE, Grid, make_grid
from gcbs_cli.graph.device_graph import DeviceGraph, find_device_graph
from gcbs_cli.products.tiles import Tile, cut
from gcbs_cli.products.torch_device import Sides, TorchBackend

ROWS = 130
TILE = 37
ONE, TWO = ["cpu"], ["cpu", "cpu"]
LONGEST_WAIT = 60.0
"""Seconds that threads wait for each other; they need milliseconds."""


class SmallDevice(TorchBackend):
    """A device that holds `most` products at once."""

    def __init__(self, most: int, devices: list[str] = ONE) -> None:
        super().__init__(devices)
        self.most, self.freed = most, 0

    def free_memory(self) -> None:
        self.freed += 1

    def product(self, loaded: Sides, tile: Tile) -> torch.Tensor:
        if tile.entries > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().product(loaded, tile)


def check_edges(found: DeviceGraph, grid: Grid, threshold: int) -> None:
    exact = numbers_of(grid)
    edges = reference.edges_above(exact, threshold)
    assert np.array_equal(found.degrees, [len(near) for near in reference.neighbours_of(len(exact), edges)])
    neighbours = [near for near in reference.neighbours_of(len(exact), edges) if near]
    assert found.indices.tolist() == [j for near in neighbours for j in near]
    assert (found.indptr.dtype, found.indices.dtype) == (torch.int64, torch.int32)
    assert found.achieved_quantile == pytest.approx((exact <= threshold).mean(), abs=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.9, 1.0])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("devices", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("largest", [BYTES, FINE], ids=["int8", "int16"])
def test_edges_are_those_of_whole_numbers(kind: str, share: float, devices: list[str], largest: int) -> None:
    pair = make_pair(kind, 90)
    grid = make_grid(pair.x, pair.y, largest)
    threshold = int(np.quantile(numbers_of(grid), share, method="lower"))
    check_edges(find_device_graph(grid, threshold, TorchBackend(devices), tile_rows=TILE), grid, threshold)


@pytest.mark.parametrize("devices", [ONE, TWO], ids=["one", "two"])
def test_a_device_with_little_memory_takes_smaller_tiles(devices: list[str]) -> None:
    grid, backend = make_pair("related", ROWS).grid, SmallDevice(700, devices)
    threshold = int(np.quantile(numbers_of(grid), 0.9))
    check_edges(find_device_graph(grid, threshold, backend), grid, threshold)
    assert backend.freed > 0


def test_every_device_makes_tiles_of_a_pass() -> None:
    together, used = threading.Barrier(2), set()

    class Watched(TorchBackend):
        def product(self, loaded: Sides, tile: Tile) -> torch.Tensor:
            if self._owned.place not in used:
                used.add(self._owned.place)
                together.wait(LONGEST_WAIT)
            return super().product(loaded, tile)

    backend = Watched(TWO)
    loaded = backend.load(np.eye(8, dtype=np.float32), np.eye(8, dtype=np.float32))
    list(backend.run(cut(8, 8, 1, 8), lambda tile: backend.product(loaded, tile)))
    assert used == {0, 1}
