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
FORWARD_SURE = tl.constexpr(1)
FORWARD_OPEN = tl.constexpr(2)
BACKWARD_SURE = tl.constexpr(4)
BACKWARD_OPEN = tl.constexpr(8)
"""What the bounds on s_ij (forward) and s_ji (backward) say: surely above t, or still open."""


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
    and to those in doubt also, as (−1 − i, j), each single entry that is perhaps above while s_ji surely is. Their
    numbers are added to counts (3,) int64 even where there is no more room; the last one counts entries surely above.
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
        sides = _sides(forward, forward_margin, low, high) + 4 * _sides(backward, backward_margin, low, high)
        sides = tl.where(wanted, sides, 0)
        entries = (sides & FORWARD_SURE) + (sides & BACKWARD_SURE) // BACKWARD_SURE
        tl.atomic_add(counts_ptr + 2, tl.sum(tl.sum(entries, axis=1), axis=0).to(tl.int64))
        row_numbers = rows[:, None] + tl.zeros((TILE, TILE), dtype=tl.int32)
        col_numbers = cols[None, :] + tl.zeros((TILE, TILE), dtype=tl.int32)
        sure = (sides & (FORWARD_SURE | BACKWARD_SURE)) != 0
        _append(sure, row_numbers, col_numbers, sure_ptr, counts_ptr, sure_room)
        lone_forward = sides == FORWARD_OPEN + BACKWARD_SURE
        lone_backward = sides == BACKWARD_OPEN + FORWARD_SURE
        first = tl.where(lone_forward, -1 - row_numbers, tl.where(lone_backward, -1 - col_numbers, row_numbers))
        second = tl.where(lone_backward, row_numbers, col_numbers)
        in_doubt = (sides & (FORWARD_OPEN | BACKWARD_OPEN)) != 0
        _append(in_doubt, first, second, unsure_ptr, counts_ptr + 1, unsure_room)


@triton.jit
def _sides(products, margins, low, high):
    """1 where a product is surely above `high`, 2 where it is not but perhaps above `low`, else 0."""
    return tl.where(products - margins > high, 1, tl.where(products + margins > low, 2, 0))


@triton.jit
def _append(chosen, first, second, pairs_ptr, count_ptr, room):
    """Write the numbers at the chosen places of a tile one after the other, beginning where the count says."""
    ones = chosen.to(tl.int32)
    total = tl.sum(tl.sum(ones, axis=1), axis=0)
    if total > 0:
        base = tl.atomic_add(count_ptr, total.to(tl.int64))
        place = _places(ones)
        kept = chosen & (place < _left(room, base))
        tl.store(pairs_ptr + 2 * base + 2 * place, first, mask=kept)
        tl.store(pairs_ptr + 2 * base + 2 * place + 1, second, mask=kept)


@triton.jit
def _places(ones):
    """The number of each 1 of a tile, row by row, from 0 on: int32, for a tile of int64 takes twice the registers."""
    by_row = tl.sum(ones, axis=1)
    row_start = tl.cumsum(by_row, axis=0) - by_row
    return row_start[:, None] + tl.cumsum(ones, axis=1) - ones


@triton.jit
def _left(room, base):
    """How much room a list has beyond `base`, as int32."""
    return tl.minimum(tl.maximum(room - base, 0), 1 << 30).to(tl.int32)


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


@triton.jit
def summarise_tile(
    x_ptr,
    y_ptr,
    row_limits_ptr,
    col_limits_ptr,
    row_suspicion_ptr,
    col_suspicion_ptr,
    inverse_temperatures_ptr,
    row_largest_ptr,
    row_sums_ptr,
    col_largest_ptr,
    col_sums_ptr,
    ends_ptr,
    values_ptr,
    count_ptr,
    room,
    rows_in_all,
    cols_in_all,
    diagonal,
    threshold,
    TEMPERATURES: tl.constexpr,
    DIM: tl.constexpr,
    TILE: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Of one tile of products: those above a limit, and sums of exp((s − largest) / temperature) by row and by column.

    x: (rows, DIM), y: (cols, DIM) float32. Entries above `threshold` or above the limit of their row or column, both
    float32, are listed: ends (room, 2) int32 and values (room,) float32, their number added to the count. Sums leave
    out what is above `threshold` and above the lesser suspicion of its row and column; that is listed as
    (−1 − row, column). Row and column are of one pair, and stay in, where column − row is `diagonal`.
    Largest values: (col tiles, rows) and (row tiles, cols); sums: the same for each temperature. Every place is written
    by one program alone, so the sums have the same bits in every run.
    """
    row_tile = tl.program_id(0)
    col_tile = tl.program_id(1)
    rows = row_tile * TILE + tl.arange(0, TILE)
    cols = col_tile * TILE + tl.arange(0, TILE)
    row_inside = rows < rows_in_all
    col_inside = cols < cols_in_all
    products = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, DIM, DEPTH):
        depth = start + tl.arange(0, DEPTH)
        inside = depth < DIM
        row_places = rows.to(tl.int64)[:, None] * DIM + depth[None, :]
        col_places = cols.to(tl.int64)[:, None] * DIM + depth[None, :]
        left = tl.load(x_ptr + row_places, mask=row_inside[:, None] & inside[None, :], other=0.0)
        right = tl.load(y_ptr + col_places, mask=col_inside[:, None] & inside[None, :], other=0.0)
        products = tl.dot(left, tl.trans(right), products, input_precision=PRECISION)
    valid = row_inside[:, None] & col_inside[None, :]
    row_limits = tl.load(row_limits_ptr + rows, mask=row_inside, other=float("inf"))
    col_limits = tl.load(col_limits_ptr + cols, mask=col_inside, other=float("inf"))
    limits = tl.minimum(tl.minimum(row_limits[:, None], col_limits[None, :]), threshold)
    row_suspicion = tl.load(row_suspicion_ptr + rows, mask=row_inside, other=float("inf"))
    col_suspicion = tl.load(col_suspicion_ptr + cols, mask=col_inside, other=float("inf"))
    suspicion = tl.maximum(tl.minimum(row_suspicion[:, None], col_suspicion[None, :]), threshold)
    left_out = valid & (products > suspicion) & (cols[None, :] - rows[:, None] != diagonal)
    row_numbers = rows[:, None] + tl.zeros((TILE, TILE), dtype=tl.int32)
    first = tl.where(left_out, -1 - row_numbers, row_numbers)
    _append_values(valid & (products > limits), first, cols, products, ends_ptr, values_ptr, count_ptr, room)
    if TEMPERATURES > 0:
        products = tl.where(valid & (left_out == 0), products, float("-inf"))
        row_largest = tl.max(products, axis=1)
        col_largest = tl.max(products, axis=0)
        row_place = col_tile.to(tl.int64) * rows_in_all + rows
        col_place = row_tile.to(tl.int64) * cols_in_all + cols
        tl.store(row_largest_ptr + row_place, row_largest, mask=row_inside)
        tl.store(col_largest_ptr + col_place, col_largest, mask=col_inside)
        # Where nothing is left the differences must be −inf, not NaN.
        row_shift = tl.where(row_largest > float("-inf"), row_largest, 0.0)
        col_shift = tl.where(col_largest > float("-inf"), col_largest, 0.0)
        row_layer = tl.num_programs(1).to(tl.int64) * rows_in_all
        col_layer = tl.num_programs(0).to(tl.int64) * cols_in_all
        for number in range(TEMPERATURES):
            scale = tl.load(inverse_temperatures_ptr + number)
            row_sums = tl.sum(tl.exp((products - row_shift[:, None]) * scale), axis=1)
            col_sums = tl.sum(tl.exp((products - col_shift[None, :]) * scale), axis=0)
            tl.store(row_sums_ptr + number * row_layer + row_place, row_sums, mask=row_inside)
            tl.store(col_sums_ptr + number * col_layer + col_place, col_sums, mask=col_inside)


@triton.jit
def _append_values(chosen, first, cols, values, ends_ptr, values_ptr, count_ptr, room):
    """Write the chosen entries of a tile with their values, beginning where the count says."""
    ones = chosen.to(tl.int32)
    total = tl.sum(tl.sum(ones, axis=1), axis=0)
    if total > 0:
        base = tl.atomic_add(count_ptr, total.to(tl.int64))
        place = _places(ones)
        kept = chosen & (place < _left(room, base))
        tl.store(ends_ptr + 2 * base + 2 * place, first, mask=kept)
        tl.store(ends_ptr + 2 * base + 2 * place + 1, cols[None, :] + tl.zeros_like(ones), mask=kept)
        tl.store(values_ptr + base + place, values, mask=kept)
