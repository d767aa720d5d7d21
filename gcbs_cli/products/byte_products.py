"""Machine code that lists the large products of two sides of bytes, tile by tile.

Written as LLVM's intermediate code and compiled for the processor at hand when first asked for (about a tenth of a
second), since neither numpy nor torch multiplies bytes with 32-bit sums and compares them before they reach memory.
The instruction is AVX-512 VNNI's vpdpbusd: 64 products of an unsigned and a signed byte, added four by four to sixteen
32-bit sums, twice the rate of bfloat16 and four times that of float32.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.grid import GROUP
from gcbs_cli.products.operations import Entries, Limits
from gcbs_cli.products.tiles import Tile
from gcbs_cli.system.threads import in_parts

LANES = 16
"""32-bit numbers in a 512-bit register."""
BLOCK_ROWS = 12
VECTORS = 2
BLOCK_COLS = VECTORS * LANES
"""A block of sums stays in 24 of the 32 registers while its products are added."""
WORD = 64
"""Entries of a block whose flags make one 64-bit word: those of two rows."""
OFFSET = 128
"""Added to the numbers of the columns: the instruction takes one side unsigned."""
MOST_DIM = 32768
"""Up to here no sum leaves 32 bits."""
NEEDED = ("avx512f", "avx512bw", "avx512vl", "avx512vnni")
BEYOND = 3 << 28
"""Limit of the rows and columns that fill the last blocks: above every product, whatever limit it is added to."""
COLUMNS_AT_ONCE = 512


class ByteProducts:
    """Two sides of bytes, ready to be searched. Memory: the right side once more, in blocks of columns."""

    def __init__(self, left: NDArray[np.int8], right: NDArray[np.int8]) -> None:
        self._left, self._starts = left, -OFFSET * left.sum(axis=1, dtype=np.int32)
        self._blocks = _in_blocks(right)

    def above(self, tile: Tile, limits: Sequence[Limits], room: NDArray[np.int32]) -> Entries:
        """The entries of a tile that are above any of the limits, in no order; it begins at a multiple of 32 columns.

        room: (3, n) int32 scratch memory for n entries, as many as the tile has.
        """
        code, (first, within) = _machine_code(), divmod(tile.cols.start, BLOCK_COLS)
        if code is None or within:
            raise ValueError(f"no products of bytes here for columns from {tile.cols.start} on")
        height, width = -(-tile.height // BLOCK_ROWS) * BLOCK_ROWS, -(-tile.width // BLOCK_COLS) * BLOCK_COLS
        arrays = (
            _padded(self._left[tile.rows], height, 0),
            _padded(self._starts[tile.rows], height, 0),
            np.stack([_padded(each.row[tile.rows], height, BEYOND) for each in limits]),
            self._blocks[first],
            np.stack([_padded(each.col[tile.cols], width, BEYOND) for each in limits]),
            *room,
        )
        sizes = self._left.shape[1] // GROUP, height // BLOCK_ROWS, width // BLOCK_COLS, len(limits)
        found = code[0](*(array.ctypes.data for array in arrays), *sizes)
        return Entries(room[0, :found] + tile.rows.start, room[1, :found] + tile.cols.start, room[2, :found].copy())


def can_multiply(left: NDArray[Any]) -> bool:
    """Whether there are products of bytes for these rows on this machine."""
    return left.dtype == np.int8 and left.shape[1] <= MOST_DIM and _machine_code() is not None


def _padded(values: NDArray[Any], count: int, filler: int) -> NDArray[Any]:
    """`count` rows of values, the last ones made of the filler, where there are fewer."""
    out = np.full((count, *values.shape[1:]), filler, values.dtype)
    out[: len(values)] = values
    return out


def _in_blocks(numbers: NDArray[np.int8]) -> NDArray[np.uint32]:
    """(B, D/4, 32): of each 32 columns, groups of four coordinates side by side, as unsigned bytes."""
    count, width = numbers.shape
    blocks = np.empty((-(-count // BLOCK_COLS), width // GROUP, BLOCK_COLS), np.uint32)

    def convert(start: int, stop: int) -> None:
        block = _padded(numbers[start : min(stop, count)], stop - start, 0).view(np.uint8) ^ np.uint8(OFFSET)
        four = block.view(np.uint32).reshape(-1, BLOCK_COLS, width // GROUP)
        blocks[start // BLOCK_COLS : stop // BLOCK_COLS] = four.transpose(0, 2, 1)

    in_parts(len(blocks) * BLOCK_COLS, COLUMNS_AT_ONCE, convert)
    return blocks


@cache
def _machine_code() -> tuple[Callable[..., int], Any] | None:
    """`scan` for this processor, and what keeps it alive; None where it cannot be made.

    It releases the interpreter lock, and returns how many entries it has listed.
    """
    try:
        from llvmlite import binding

        features = binding.get_host_cpu_features()
        if not all(features.get(name) for name in NEEDED):
            return None
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine(
            cpu=binding.get_host_cpu_name(), features=features.flatten(), opt=3, jit=True
        )
        module = binding.parse_assembly(_code())
        module.verify()
    except (ImportError, OSError, RuntimeError):
        return None
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    tuning = binding.PipelineTuningOptions()
    tuning.speed_level = 2
    tuning.loop_unrolling = tuning.loop_vectorization = tuning.slp_vectorization = False  # it is all by hand
    passes = binding.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 8, *[ctypes.c_int64] * 4)
    return kind(engine.get_function_address("scan")), engine


_SUMS = f"<{LANES} x i32>"
_LINE = f"<{BLOCK_COLS} x i32>"
"""A row of a block, or of its limits."""


def _code() -> str:
    """Columns by blocks, rows by blocks within them; x rows of `groups` times four bytes, y blocks of columns.

    Lists (row, col, value) in %rows, %cols, %values where starts_i + Σ x·y > row_limits_li + col_limits_lj for any l.
    """
    sums = [(row, vector) for row in range(BLOCK_ROWS) for vector in range(VECTORS)]
    variables = "".join(f"\n  %sum{r}.{v} = alloca {_SUMS}" for r, v in sums)
    held = "".join(
        f"""
  %held{r}.{v} = load {_SUMS}, ptr %sum{r}.{v}
  %block.p{r}.{v} = getelementptr {_SUMS}, ptr %block, i64 {r * VECTORS + v}
  store {_SUMS} %held{r}.{v}, ptr %block.p{r}.{v}"""
        for r, v in sums
    )
    block = f"""
  %row.first = mul i64 %rb, {BLOCK_ROWS}
  %col.first = mul i64 %cb, {BLOCK_COLS}{_starts()}
{_loop("g", "%groups", _products())}{held}
{_loop("r", str(BLOCK_ROWS), _comparison())}
{_loop("w", str(BLOCK_ROWS * BLOCK_COLS // WORD), _listing())}"""
    return f"""
declare i64 @llvm.cttz.i64(i64, i1)
; Its older types, which newer versions of LLVM translate.
declare {_SUMS} @llvm.x86.avx512.vpdpbusd.512({_SUMS}, {_SUMS}, {_SUMS})

define i64 @scan(ptr %x, ptr %starts, ptr %row_limits, ptr %y, ptr %col_limits, ptr %rows, ptr %cols, ptr %values,
                 i64 %groups, i64 %row_blocks, i64 %col_blocks, i64 %limits)
                "prefer-vector-width"="512" nounwind {{
  %found.at = alloca i64
  store i64 0, ptr %found.at
  %cb.at = alloca i64
  %rb.at = alloca i64
  %g.at = alloca i64
  %r.at = alloca i64
  %l.at = alloca i64
  %w.at = alloca i64
  %left.at = alloca i64
  %hits.at = alloca <{BLOCK_COLS} x i1>
  %flags = alloca [{BLOCK_ROWS} x i{BLOCK_COLS}], align 8
  %block = alloca [{len(sums)} x {_SUMS}]{variables}
  %height = mul i64 %row_blocks, {BLOCK_ROWS}
  %width = mul i64 %col_blocks, {BLOCK_COLS}
{_loop("cb", "%col_blocks", _loop("rb", "%row_blocks", block))}
  %found.all = load i64, ptr %found.at
  ret i64 %found.all
}}
"""


def _loop(name: str, count: str, body: str) -> str:
    """`body` for the 64-bit number in %{name} from 0 below `count`; variables live in memory until LLVM lifts them."""
    return f"""
  store i64 0, ptr %{name}.at
  br label %{name}.head
{name}.head:
  %{name} = load i64, ptr %{name}.at
  %{name}.more = icmp ult i64 %{name}, {count}
  br i1 %{name}.more, label %{name}.body, label %{name}.done
{name}.body:{body}
  %{name}.next = add i64 %{name}, 1
  store i64 %{name}.next, ptr %{name}.at
  br label %{name}.head
{name}.done:"""


def _broadcast(name: str, base: str, index: str, kind: str = _SUMS) -> str:
    """%name: the 32-bit number at base[index], in every lane."""
    return f"""
  %{name}.p = getelementptr i32, ptr {base}, i64 {index}
  %{name}.s = load i32, ptr %{name}.p, align 4
  %{name}.v = insertelement {kind} poison, i32 %{name}.s, i32 0
  %{name} = shufflevector {kind} %{name}.v, {kind} poison, {kind} zeroinitializer"""


def _starts() -> str:
    """Where the rows of a block lie, and what their sums begin with."""
    return "".join(
        f"""
  %row{r} = add i64 %row.first, {r}
  %x.first{r} = mul i64 %row{r}, %groups
  %x{r} = getelementptr i32, ptr %x, i64 %x.first{r}{_broadcast(f"start{r}", "%starts", f"%row{r}")}
  store {_SUMS} %start{r}, ptr %sum{r}.0
  store {_SUMS} %start{r}, ptr %sum{r}.1"""
        for r in range(BLOCK_ROWS)
    )


def _products() -> str:
    """The products of the g-th four coordinates, added to the sums of a block."""
    return f"""
  %y.before = mul i64 %cb, %groups
  %y.group = add i64 %y.before, %g
  %y.p0 = getelementptr {_LINE}, ptr %y, i64 %y.group
  %y.p1 = getelementptr {_SUMS}, ptr %y.p0, i64 1
  %y.v0 = load {_SUMS}, ptr %y.p0, align 4
  %y.v1 = load {_SUMS}, ptr %y.p1, align 4""" + "".join(
        _broadcast(f"x.v{r}", f"%x{r}", "%g")
        + "".join(
            f"""
  %old{r}.{v} = load {_SUMS}, ptr %sum{r}.{v}
  %new{r}.{v} = call {_SUMS} @llvm.x86.avx512.vpdpbusd.512({_SUMS} %old{r}.{v}, {_SUMS} %y.v{v}, {_SUMS} %x.v{r})
  store {_SUMS} %new{r}.{v}, ptr %sum{r}.{v}"""
            for v in range(VECTORS)
        )
        for r in range(BLOCK_ROWS)
    )


def _comparison() -> str:
    """The r-th row of a block: which of its entries are above any limit, as bits."""
    compare = f"""
  %rl.before = mul i64 %l, %height
  %rl.at = add i64 %rl.before, %row.r
  %cl.before = mul i64 %l, %width
  %cl.at = add i64 %cl.before, %col.first
  %cl.p = getelementptr i32, ptr %col_limits, i64 %cl.at
  %cl = load {_LINE}, ptr %cl.p, align 4{_broadcast("rl", "%row_limits", "%rl.at", _LINE)}
  %limit = add {_LINE} %rl, %cl
  %hit = icmp sgt {_LINE} %line, %limit
  %before = load <{BLOCK_COLS} x i1>, ptr %hits.at
  %hits.both = or <{BLOCK_COLS} x i1> %before, %hit
  store <{BLOCK_COLS} x i1> %hits.both, ptr %hits.at"""
    return f"""
  %row.r = add i64 %row.first, %r
  %line.p = getelementptr {_LINE}, ptr %block, i64 %r
  %line = load {_LINE}, ptr %line.p, align 64
  store <{BLOCK_COLS} x i1> zeroinitializer, ptr %hits.at
{_loop("l", "%limits", compare)}
  %hits = load <{BLOCK_COLS} x i1>, ptr %hits.at
  %hits.p = getelementptr i{BLOCK_COLS}, ptr %flags, i64 %r
  store <{BLOCK_COLS} x i1> %hits, ptr %hits.p"""


def _listing() -> str:
    """Row, column and value of each entry above a limit, by the w-th word of a block's bits."""
    stores = "".join(
        f"""
  %{name}.p = getelementptr i32, ptr %{name}s, i64 %found
  store i32 %{name}.32, ptr %{name}.p"""
        for name in ("row", "col", "value")
    )
    return f"""
  %word.p = getelementptr i64, ptr %flags, i64 %w
  %word = load i64, ptr %word.p
  store i64 %word, ptr %left.at
  br label %bits.head
bits.head:
  %left = load i64, ptr %left.at
  %none = icmp eq i64 %left, 0
  br i1 %none, label %bits.done, label %bits.body
bits.body:
  %bit = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %word.first = mul i64 %w, {WORD}
  %entry = add i64 %word.first, %bit
  %block.row = udiv i64 %entry, {BLOCK_COLS}
  %block.col = urem i64 %entry, {BLOCK_COLS}
  %row = add i64 %row.first, %block.row
  %col = add i64 %col.first, %block.col
  %row.32 = trunc i64 %row to i32
  %col.32 = trunc i64 %col to i32
  %value.at = getelementptr i32, ptr %block, i64 %entry
  %value.32 = load i32, ptr %value.at
  %found = load i64, ptr %found.at{stores}
  %found.next = add i64 %found, 1
  store i64 %found.next, ptr %found.at
  %less = sub i64 %left, 1
  %rest = and i64 %left, %less
  store i64 %rest, ptr %left.at
  br label %bits.head
bits.done:"""
