"""The entries above limits, however they are multiplied, against an int64 product of the grid."""

import numpy as np
import pytest
from unit_data import KINDS, make_pair

from gcbs_cli.data.grid import BYTES, FINE, make_grid
from gcbs_cli.products.byte_products import can_multiply
from gcbs_cli.products.operations import EVERYTHING, Backend, Limits
from gcbs_cli.products.tiles import Tile, cut

NOTHING = -EVERYTHING


def exact_products(grid) -> np.ndarray:
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
def test_entries_are_those_of_an_integer_product(kind, largest, backend: Backend):
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


@pytest.mark.parametrize("narrow", ["bfloat16", "float16"])
def test_products_of_narrow_numbers_with_float32_sums_are_the_same_integers(narrow):
    """What a tensor core does: inputs of few bits, exact products, float32 sums in some order."""
    torch = pytest.importorskip("torch")
    pair = make_pair("1003-dimensions", 150)
    for largest in (BYTES, FINE) if narrow == "float16" else (BYTES,):
        grid = make_grid(pair.x, pair.y, largest)
        left, right = (
            torch.from_numpy(side.astype(np.float32)).to(getattr(torch, narrow)).float() for side in (grid.x, grid.y)
        )
        assert np.array_equal((left @ right.T).numpy(), exact_products(grid))
        assert np.array_equal((left.flip(1) @ right.flip(1).T).numpy(), exact_products(grid))


def test_bytes_are_multiplied_as_bytes_where_the_processor_can():
    with open("/proc/cpuinfo") as file:
        capable = "avx512_vnni" in file.read()
    assert can_multiply(np.zeros((1, 4), np.int8)) == capable
    assert not can_multiply(np.zeros((1, 4), np.int16))
