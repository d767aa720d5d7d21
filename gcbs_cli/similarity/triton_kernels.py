# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Triton kernels: both directions of a tile of products compared and compacted, and dot products of chosen pairs.

X Yᵀ never reaches memory. A tile of rows I and columns J, I before J, is made for both directions at once (s_ij and
s_ji), so that every undirected edge comes out once.
"""

import triton
import triton.language as tl

TILE = 128
DEPTH = 64
PAIRS = 32


@triton.jit
def find_pairs(
    x_ptr,
    y_ptr,
    x_margin_ptr,
    y_margin_ptr,
    sure_ptr,
    unsure_ptr,
    counts_ptr,
    sure_room,
    unsure_room,
    nodes,
    first_tile,
    low,
    high,
    DIM: tl.constexpr,
    TILE: tl.constexpr,
    DEPTH: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Unordered pairs i < j of one tile with s_ij or s_ji surely above `high`, or, if neither, perhaps above `low`.

    x, y: (N, DIM) bfloat16; margins: (N,) float32, what rounding may add to a similarity. Pairs go to (room, 2) int32,
    their numbers are added to counts (2,) int64 even where there is no more room.
    """
    row_tile = first_tile + tl.program_id(0)
    col_tile = first_tile + tl.program_id(1)
    if col_tile >= row_tile:
        rows = row_tile * TILE + tl.arange(0, TILE)
        cols = col_tile * TILE + tl.arange(0, TILE)
        row_inside = rows < nodes
        col_inside = cols < nodes
        forward = tl.zeros((TILE, TILE), dtype=tl.float32)
        backward = tl.zeros((TILE, TILE), dtype=tl.float32)
        for start in range(0, DIM, DEPTH):
            depth = start + tl.arange(0, DEPTH)
            inside = depth < DIM
            row_places = rows.to(tl.int64)[:, None] * DIM + depth[None, :]
            col_places = cols.to(tl.int64)[:, None] * DIM + depth[None, :]
            row_mask = row_inside[:, None] & inside[None, :]
            col_mask = col_inside[:, None] & inside[None, :]
            x_rows = tl.load(x_ptr + row_places, mask=row_mask, other=0.0)
            y_cols = tl.load(y_ptr + col_places, mask=col_mask, other=0.0)
            y_rows = tl.load(y_ptr + row_places, mask=row_mask, other=0.0)
            x_cols = tl.load(x_ptr + col_places, mask=col_mask, other=0.0)
            if UPCAST:
                x_rows = x_rows.to(tl.float32)
                y_cols = y_cols.to(tl.float32)
                y_rows = y_rows.to(tl.float32)
                x_cols = x_cols.to(tl.float32)
            forward = tl.dot(x_rows, tl.trans(y_cols), forward)
            backward = tl.dot(y_rows, tl.trans(x_cols), backward)
        x_row_margin = tl.load(x_margin_ptr + rows, mask=row_inside, other=0.0)
        y_row_margin = tl.load(y_margin_ptr + rows, mask=row_inside, other=0.0)
        x_col_margin = tl.load(x_margin_ptr + cols, mask=col_inside, other=0.0)
        y_col_margin = tl.load(y_margin_ptr + cols, mask=col_inside, other=0.0)
        forward_margin = x_row_margin[:, None] + y_col_margin[None, :]
        backward_margin = y_row_margin[:, None] + x_col_margin[None, :]
        wanted = (rows[:, None] < cols[None, :]) & row_inside[:, None] & col_inside[None, :]
        sure = wanted & ((forward - forward_margin > high) | (backward - backward_margin > high))
        perhaps = wanted & ((forward + forward_margin > low) | (backward + backward_margin > low))
        unsure = perhaps & (sure == 0)
        _append(sure, rows, cols, sure_ptr, counts_ptr, sure_room)
        _append(unsure, rows, cols, unsure_ptr, counts_ptr + 1, unsure_room)


@triton.jit
def _append(chosen, rows, cols, pairs_ptr, count_ptr, room):
    """Write the chosen places of a tile one after the other, beginning where the count says."""
    ones = chosen.to(tl.int32)
    by_row = tl.sum(ones, axis=1)
    total = tl.sum(by_row, axis=0)
    if total > 0:
        base = tl.atomic_add(count_ptr, total.to(tl.int64))
        row_start = tl.cumsum(by_row, axis=0) - by_row
        place = base + (row_start[:, None] + tl.cumsum(ones, axis=1) - ones).to(tl.int64)
        kept = chosen & (place < room)
        row_numbers = rows[:, None] + tl.zeros_like(ones)
        col_numbers = cols[None, :] + tl.zeros_like(ones)
        tl.store(pairs_ptr + 2 * place, row_numbers, mask=kept)
        tl.store(pairs_ptr + 2 * place + 1, col_numbers, mask=kept)


@triton.jit
def pair_dots(
    x_ptr, y_ptr, rows_ptr, cols_ptr, values_ptr, count, DIM: tl.constexpr, PAIRS: tl.constexpr, DEPTH: tl.constexpr
):
    """values_p = x[rows_p] · y[cols_p] in float32, without matrix units. x, y: (N, DIM) float32."""
    pairs = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    inside = pairs < count
    rows = tl.load(rows_ptr + pairs, mask=inside, other=0).to(tl.int64)
    cols = tl.load(cols_ptr + pairs, mask=inside, other=0).to(tl.int64)
    sums = tl.zeros((PAIRS, DEPTH), dtype=tl.float32)
    for start in range(0, DIM, DEPTH):
        depth = start + tl.arange(0, DEPTH)
        mask = inside[:, None] & (depth < DIM)[None, :]
        left = tl.load(x_ptr + rows[:, None] * DIM + depth[None, :], mask=mask, other=0.0)
        right = tl.load(y_ptr + cols[:, None] * DIM + depth[None, :], mask=mask, other=0.0)
        sums += left * right
    tl.store(values_ptr + pairs, tl.sum(sums, axis=1), mask=inside)
