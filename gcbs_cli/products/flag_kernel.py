"""Both products of each pair of a tile, read once and compared, by one Triton kernel: no atomics, no shared memory."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gcbs_cli.products.operations import Tile

PAIRS = 1024
"""Of one row, which a program compares; the launch's first axis takes 2³¹ − 1 programs."""


def flag_by_kernel(there: Tensor, back: Tensor, offsets: tuple[Tensor, ...], tile: Tile, limit: int) -> Tensor:
    """(r, c') what `flag_by_torch` gives, and zeros up to where the next row of the products begins."""
    stride = there.stride(0)
    flags = torch.empty((tile.height, stride), dtype=torch.uint8, device=there.device)
    programs, begins = tile.height * triton.cdiv(stride, PAIRS), (tile.rows.start, tile.cols.start)
    with torch.cuda.device_of(there):
        arguments = there, back, *offsets, flags, stride, tile.width, *begins, limit
        _flag[(programs,)](*arguments, PAIRS=PAIRS, enable_fp_fusion=False)  # unsaid, Triton 3.9 warns
    return flags


# Of the numbers that change, only the stride, always a multiple of 16, may decide what is compiled.
@triton.jit(do_not_specialize=["width", "first_i", "first_j", "limit"])
def _flag(there, back, x_offsets, y_offsets, flags, stride, width, first_i, first_j, limit, PAIRS: tl.constexpr):
    parts = (stride + PAIRS - 1) // PAIRS
    row = tl.program_id(0) // parts
    cols = tl.program_id(0) % parts * PAIRS + tl.arange(0, PAIRS)
    inside, held = cols < width, cols < stride  # of the latter it is known to end at a multiple of 16: wide loads
    places = row.to(tl.int64) * stride + cols
    i, j = first_i + row, first_j + cols
    forward = tl.load(there + places, mask=held).to(tl.int32)
    forward += tl.load(x_offsets + i) + tl.load(y_offsets + j, mask=inside, other=0)
    backward = tl.load(back + places, mask=held).to(tl.int32)
    backward += tl.load(y_offsets + i) + tl.load(x_offsets + j, mask=inside, other=0)
    found = tl.where(forward > limit, 1, 0) + tl.where(backward > limit, 2, 0)
    tl.store(flags + places, tl.where(inside & (i < j), found, 0).to(tl.uint8), mask=held)
