"""From the rows of a grid to the edges of its graph on a device, against loops and float64."""

import sys
import threading

import numpy as np
import pytest
import reference
import torch
from on_device import DEVICE, TWICE, SmallDevice, needs_gpu
from unit_data import KINDS, make_pair, numbers_of, unit

from gcbs_cli.data.grid import BYTES, FINE, make_grid
from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.graph.device_graph import find_device_graph
from gcbs_cli.products.operations import Tile, cut
from gcbs_cli.products.torch_device import HELD_AS, MULTIPLY, TorchBackend, flag_by_torch, pair_flags

GRIDS = pytest.mark.parametrize("largest", [BYTES, FINE], ids=["bytes", "11-bits"])
DEALT = pytest.mark.parametrize("devices", [[DEVICE], TWICE], ids=["one", "two"])
LONGEST_WAIT = 60.0
"""Seconds that threads wait for each other; they need milliseconds."""


def grid_of(rows, dim, largest):
    """Of related sides with equal rows, hubs and a common direction."""
    generator = np.random.default_rng([rows, dim])
    x = generator.normal(size=(rows, dim)) + 0.5
    x[: rows // 7] = x[0]
    y = x + generator.normal(size=x.shape)
    y[: rows // 20] += 2.0
    return make_grid(unit(x), unit(y), largest)


def check_edges(found, grid, threshold):
    exact = grid.x.astype(np.float64) @ grid.y.T.astype(np.float64) + grid.x_offsets[:, None] + grid.y_offsets
    expected = adjacency_from_pairs(len(exact), *np.int32(np.nonzero(exact > threshold)))
    assert np.array_equal(found.indptr.cpu(), expected.indptr)
    assert np.array_equal(found.indices.cpu(), expected.indices)
    assert (found.indptr.dtype, found.indices.dtype) == (torch.int64, torch.int32)
    assert found.achieved_quantile == pytest.approx((exact <= threshold).mean(), abs=1e-12)


def quantile(grid, share):
    some = numbers_of(grid) if len(grid.x) < 500 else grid.x[:500].astype(np.float32) @ grid.y.T.astype(np.float32)
    return int(np.quantile(some, share, method="lower"))


@pytest.mark.parametrize("share", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("kind", KINDS)
@DEALT
@GRIDS
def test_edges_are_those_of_whole_numbers(kind, share, devices, largest):
    pair = make_pair(kind, 90)
    grid = make_grid(pair.x, pair.y, largest)
    threshold = quantile(grid, share)
    backend = TorchBackend(devices)
    backend.tile_rows = 37
    found = find_device_graph(grid, threshold, backend)
    check_edges(found, grid, threshold)
    edges = reference.edges_above(numbers_of(grid), threshold)
    assert found.degrees.tolist() == [len(near) for near in reference.neighbours_of(90, edges)]


@pytest.mark.parametrize(("rows", "dim"), [*((70, dim) for dim in (1, 3, 64, 100, 768, 1003)), (300, 100)])
@GRIDS
def test_edges_by_the_kernel_at_odd_sizes(rows, dim, largest, kernel):
    grid, backend = grid_of(rows, dim, largest), TorchBackend([DEVICE])
    backend.tile_shape = (128, 200)
    threshold = quantile(grid, 0.97)
    assert pair_flags(DEVICE) is kernel.flag_by_kernel
    check_edges(find_device_graph(grid, threshold, backend), grid, threshold)


@pytest.mark.parametrize("first", [(0, 0), (64, 100), (100, 64), (300, 0)], ids=str)
@pytest.mark.parametrize("shape", [(33, 70), (5, 1), (40, 1100)], ids=str)
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32], ids=str)
def test_the_kernel_flags_what_torch_flags_and_nothing_outside(shape, first, dtype, kernel):
    generator, (height, width) = torch.Generator().manual_seed(1), shape
    held = torch.full(
        (2, height, 1024 if width < 1024 else 1120), 9999, dtype=dtype
    )  # beyond the tile lies what would be flagged
    held[:, :, :width] = torch.randint(-50, 50, (2, *shape), generator=generator).to(dtype)
    there, back = held.to(DEVICE)[:, :, :width]
    offsets = tuple(torch.randint(-9, 9, (2, 1500), generator=generator, dtype=torch.int32).to(DEVICE))
    tile = Tile(*(slice(begin, begin + size) for begin, size in zip(first, shape, strict=True)))
    found = kernel.flag_by_kernel(there, back, offsets, tile, 3)
    assert torch.equal(found[:, :width], flag_by_torch(there, back, offsets, tile, 3))
    assert not found[:, width:].any()
    for i, j in np.ndindex(shape):
        x, y = (side.tolist() for side in offsets)
        row, col = first[0] + i, first[1] + j
        forward, backward = there[i, j] + x[row] + y[col] > 3, back[i, j] + y[row] + x[col] > 3
        assert found[i, j] == (row < col) * (forward + 2 * backward)
        if i * j > 50:
            break


@GRIDS
@pytest.mark.parametrize("dim", [3, 100, 768])
def test_every_way_to_multiply_gives_whole_numbers(dim, largest, monkeypatch):
    grid, tried = grid_of(300, dim, largest), []
    exact = grid.x.astype(np.int64) @ grid.y.T.astype(np.int64)
    for side in (grid.x, grid.y):
        assert np.array_equal(side.astype(np.float16), side)
    for held in HELD_AS[grid.x.dtype.name]:
        with monkeypatch.context() as only:
            only.setattr(TorchBackend, "_quickest", lambda *_, held=held: held)
            backend = TorchBackend([DEVICE])
            try:
                found = backend.product(backend.load(grid.x, grid.y), Tile(slice(5, 300), slice(1, 294)))
            except NotImplementedError:  # float16 with float32 sums, on the CPU
                assert (DEVICE, held) == ("cpu", torch.float16)
                continue
        if not np.array_equal(found.cpu(), exact[5:, 1:294]):  # processors without VNNI saturate sums of bytes
            assert (DEVICE, held) == ("cpu", torch.int8)
            assert TorchBackend([DEVICE])._quickest(grid.x, grid.y) != held
        tried.append(held)
    assert torch.float32 in tried


def test_what_fails_or_errs_on_a_device_is_not_taken(monkeypatch):
    def fail(rows, cols):
        raise RuntimeError("not on this device")

    monkeypatch.setitem(MULTIPLY, torch.int8, lambda rows, cols: torch.zeros(len(rows), cols.shape[1], device=DEVICE))
    monkeypatch.setitem(MULTIPLY, torch.float16, fail)
    ((left, right),) = TorchBackend([DEVICE]).load(*2 * [grid_of(100, 8, BYTES).x])
    assert left.dtype == right.dtype == torch.float32
    pair_flags.cache_clear()
    monkeypatch.setitem(sys.modules, "gcbs_cli.products.flag_kernel", None)
    assert pair_flags(DEVICE) is flag_by_torch
    pair_flags.cache_clear()


@needs_gpu
def test_nothing_is_compiled_twice(kernel):
    backend = TorchBackend([DEVICE])
    for rows in (300, 301, 1000, 2048):
        backend.tile_rows = rows // 3
        find_device_graph(grid_of(rows, 64, BYTES), 0, backend)
    ((compiled, *_),) = kernel._flag.device_caches.values()
    assert len(compiled) <= 2  # int32 and float32 products


@pytest.mark.parametrize("capability", [75, 80, 86, 89, 90, 100])
@pytest.mark.parametrize("product", ["*i32", "*fp32"])
def test_the_kernel_compiles_for_every_gpu_without_shared_memory(product, capability):
    compiler = pytest.importorskip("triton.backends.compiler")
    from triton.compiler import ASTSource, compile

    from gcbs_cli.products.flag_kernel import PAIRS, _flag

    numbers = dict.fromkeys(["stride", "width", "first_i", "first_j", "limit"], "i32")
    pointers = {"there": product, "back": product, "x_offsets": "*i32", "y_offsets": "*i32", "flags": "*u8"}
    source = ASTSource(
        fn=_flag,
        signature={**pointers, **numbers, "PAIRS": "constexpr"},
        constexprs={"PAIRS": PAIRS},
        attrs={(place,): [["tt.divisibility", 16]] for place in range(6)},
    )
    made = compile(source, compiler.GPUTarget("cuda", capability, 32), {"enable_fp_fusion": False})
    assert made.metadata.shared == 0
    assert "ld.global.v4" in made.asm["ptx"]
    assert ".local" not in made.asm["ptx"]


@DEALT
def test_a_device_with_little_memory_takes_smaller_tiles(devices):
    grid, backend = make_pair("related", 130).grid, SmallDevice(700, devices)
    threshold = quantile(grid, 0.9)
    check_edges(find_device_graph(grid, threshold, backend), grid, threshold)
    assert backend.freed > 1


@needs_gpu
def test_a_gpu_that_runs_out_of_memory_goes_on_with_smaller_tiles():
    grid, backend = grid_of(20_000, 64, BYTES), TorchBackend([DEVICE])
    threshold = quantile(grid, 0.9999)
    expected = find_device_graph(grid, threshold, backend)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(2**30 / torch.cuda.get_device_properties(0).total_memory)
    try:
        found = find_device_graph(grid, threshold, backend)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert torch.equal(found.indices, expected.indices)


def test_every_device_makes_tiles_of_a_pass():
    together, used = threading.Barrier(2), set()

    class Watched(TorchBackend):
        def product(self, loaded, tile):
            if self.owned.mine not in used:
                used.add(self.owned.mine)
                together.wait(LONGEST_WAIT)
            return super().product(loaded, tile)

    backend = Watched(TWICE)
    loaded = backend.load(np.eye(8, dtype=np.float32), np.eye(8, dtype=np.float32))
    list(backend.run(cut(8, 8, 1, 8), lambda tile: backend.product(loaded, tile)))
    assert used == {0, 1}
