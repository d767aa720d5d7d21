"""Lists the large products of two sides of bytes, tile by tile.

Neither numpy nor torch multiplies bytes with 32-bit sums and compares them before they reach memory, and no loop makes
LLVM use the instruction for it, AVX-512 VNNI's vpdpbusd: 64 products of an unsigned and a signed byte, added four by
four to sixteen 32-bit sums, twice the rate of bfloat16 and four times that of float32. So that one step is written in
LLVM's own words, and numba compiles it into the loop around it.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numba
import numba.extending
import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, types
from numpy.typing import NDArray

from gcbs_cli.data.grid import GROUP
from gcbs_cli.products.operations import Entries, Limits, Tile
from gcbs_cli.system.arrays import Array, Int32s
from gcbs_cli.system.compiled import compiled
from gcbs_cli.system.threads import in_parts

LANES = 16
"""32-bit numbers in a 512-bit register."""
BLOCK_ROWS = 12
VECTORS = 2
BLOCK_COLS = VECTORS * LANES
"""A block of sums stays in 24 of the 32 registers while its products are added."""
OFFSET = 128
"""Added to the numbers of the columns: the instruction takes one side unsigned."""
MOST_DIM = 32768
"""Up to here no sum leaves 32 bits."""
BEYOND = 3 << 28
"""Limit of the rows and columns that fill the last blocks: above every product, whatever limit it is added to."""
COLUMNS_AT_ONCE = 512


class ByteProducts:
    """Two sides of bytes, ready to be searched. Memory: the right side once more, in blocks of columns."""

    def __init__(self, left: NDArray[np.int8], right: NDArray[np.int8]) -> None:
        self._left, self._starts = left, -OFFSET * left.sum(axis=1, dtype=np.int32)
        self._columns = _side_by_side(right)

    def above(self, tile: Tile, limits: Sequence[Limits], room: Int32s) -> Entries:
        """The entries of a tile that are above any of the limits, in no order; it begins at a multiple of 32 columns.

        room: (3, n) int32 scratch memory for n entries, as many as the tile has.
        """
        first = tile.cols.start // BLOCK_COLS
        found = _scan(
            _in_blocks(self._left[tile.rows], BLOCK_ROWS, 0).view(np.int32),
            _in_blocks(self._starts[tile.rows], BLOCK_ROWS, 0),
            self._columns[first : -(-tile.cols.stop // BLOCK_COLS)],
            np.stack([_in_blocks(each.row[tile.rows], BLOCK_ROWS, BEYOND) for each in limits]),
            np.stack([_in_blocks(each.col[tile.cols], BLOCK_COLS, BEYOND) for each in limits]),
            room,
        )
        return Entries(room[0, :found] + tile.rows.start, room[1, :found] + tile.cols.start, room[2, :found].copy())


def can_multiply(left: Array) -> bool:
    """Whether there are products of bytes for these rows on this machine."""
    return left.dtype == np.int8 and left.shape[1] <= MOST_DIM and _has_instruction()


@cache
def _has_instruction() -> bool:
    """Whether numba compiles for this very processor, and that has the instruction."""
    config: Any = numba.config
    if config.CPU_NAME or config.CPU_FEATURES or config.DISABLE_JIT:
        return False
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know the processor
        return False
    return bool(features.get("avx512vnni"))


def _in_blocks(values: Array, size: int, filler: int) -> Array:
    """(B, size, ...) the values in blocks, of which the last is filled up."""
    out = np.full((-(-len(values) // size) * size, *values.shape[1:]), filler, values.dtype)
    out[: len(values)] = values
    return out.reshape(-1, size, *values.shape[1:])


def _side_by_side(numbers: NDArray[np.int8]) -> NDArray[np.uint32]:
    """(B, D/4, 32): of each 32 columns, groups of four coordinates side by side, as unsigned bytes."""
    count, width = numbers.shape
    blocks = np.empty((-(-count // BLOCK_COLS), width // GROUP, BLOCK_COLS), np.uint32)

    def convert(start: int, stop: int) -> None:
        four = (_in_blocks(numbers[start:stop], BLOCK_COLS, 0).view(np.uint8) ^ np.uint8(OFFSET)).view(np.uint32)
        blocks[start // BLOCK_COLS : -(-stop // BLOCK_COLS)] = four.transpose(0, 2, 1)

    in_parts(count, COLUMNS_AT_ONCE, convert)
    return blocks


@compiled
def _scan(
    x: Int32s, starts: Int32s, y: NDArray[np.uint32], row_limits: Int32s, col_limits: Int32s, room: Int32s
) -> int:
    """List (row, col, value) in `room` where starts_i + Σ x·y > row_limits_li + col_limits_lj for any l; how many.

    x: (R, 12, D/4), blocks of rows, four bytes each; y: (C, D/4, 32), blocks of columns; the others in blocks, too, and
    no arrays are made in the loops, or these would take as long as the products.
    """
    found, sums = 0, np.empty((BLOCK_ROWS, BLOCK_COLS), np.int32)
    least = np.empty_like(sums)
    width = col_limits.shape[2]  # 32, but a loop of a known length is unrolled, and then not vectorized
    for col in range(len(y)):
        for row in range(len(x)):
            for r in range(BLOCK_ROWS):
                start, limit = starts[row, r], row_limits[0, row, r]
                for c in range(width):
                    least[r, c] = limit + col_limits[0, col, c]
                for line in range(1, len(row_limits)):
                    limit = row_limits[line, row, r]
                    for c in range(width):
                        least[r, c] = min(least[r, c], np.int32(limit + col_limits[line, col, c]))
                for c in range(width):
                    sums[r, c] = start - least[r, c]
            _add_products(x, y, sums, row, col)
            for r in range(BLOCK_ROWS):
                most = np.int32(0)  # of the whole row at once, for few rows have any
                for c in range(width):
                    most = max(most, sums[r, c])
                for c in range(BLOCK_COLS if most > 0 else 0):
                    if sums[r, c] > 0:
                        room[0, found], room[1, found] = row * BLOCK_ROWS + r, col * BLOCK_COLS + c
                        room[2, found] = sums[r, c] + least[r, c]
                        found += 1
    return found


def _products(typing: Any, x: Any, y: Any, sums: Any, row: Any, col: Any) -> Any:
    """Add to `sums` (12, 32) the products of a block of rows and one of columns, all in registers."""
    tools: Any = cgutils

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, vector = ir.IntType(32), ir.VectorType(ir.IntType(32), LANES)
        arrays = [context.make_array(kind)(context, builder, arguments[i]) for i, kind in enumerate((x, y, sums))]
        rows = builder.bitcast(arrays[0].data, word.as_pointer())
        columns, places = (builder.bitcast(array.data, vector.as_pointer()) for array in arrays[1:])
        groups = builder.extract_value(arrays[0].shape, 2)
        number = groups.type
        # Its older types, which newer versions of LLVM translate.
        kind = ir.FunctionType(vector, [vector] * 3)
        add = tools.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.vpdpbusd.512")
        at = [builder.gep(places, [number(i)]) for i in range(BLOCK_ROWS * VECTORS)]
        held = [tools.alloca_once_value(builder, builder.load(place, align=4)) for place in at]
        top = builder.mul(arguments[3], number(BLOCK_ROWS))
        begins = [builder.mul(builder.add(top, number(r)), groups) for r in range(BLOCK_ROWS)]
        before = builder.mul(arguments[4], builder.mul(groups, number(VECTORS)))
        with tools.for_range(builder, groups) as loop:
            # Without a call in it the loop would be unrolled, and the registers would not suffice.
            builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], side_effect=True)
            here = builder.add(before, builder.mul(loop.index, number(VECTORS)))
            near = [builder.gep(columns, [builder.add(here, number(v))]) for v in range(VECTORS)]
            four = [builder.load(place, align=4) for place in near]
            for r in range(BLOCK_ROWS):
                one = builder.load(builder.gep(rows, [builder.add(begins[r], loop.index)]))
                lane = builder.insert_element(vector(ir.Undefined), one, word(0))
                spread = builder.shuffle_vector(lane, lane, vector([0] * LANES))
                for v in range(VECTORS):
                    sum_at = held[r * VECTORS + v]
                    builder.store(builder.call(add, [builder.load(sum_at), four[v], spread]), sum_at)
        for place, sum_at in zip(at, held, strict=True):
            builder.store(builder.load(sum_at), place, align=4)
        return context.get_dummy_value()

    return types.void(x, y, sums, types.intp, types.intp), emit


_add_products: Any = numba.extending.intrinsic(_products)
