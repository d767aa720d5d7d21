"""Machine code that lists the large products of two sides of bytes, tile by tile.

Written as LLVM's intermediate code and compiled for the processor at hand when first asked for (about a tenth of a
second), since neither numpy nor torch multiplies bytes with 32-bit sums and compares them before they reach memory.
The instruction is AVX-512 VNNI's vpdpbusd: 64 products of an unsigned and a signed byte, added four by four to sixteen
32-bit sums, twice the rate of bfloat16 and four times that of float32.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

_SUMS = f"<{LANES} x i32>"
_BLOCK = [(row, vector) for row in range(BLOCK_ROWS) for vector in range(VECTORS)]


class ByteProducts:
    """Two sides of bytes, ready to be searched. Memory: the right side once more, in blocks of columns."""

    def __init__(self, left: NDArray[np.int8], right: NDArray[np.int8]) -> None:
        self._left, self._right_rows = left, len(right)
        self._starts = -OFFSET * left.sum(axis=1, dtype=np.int32)
        self._blocks = _in_blocks(right)

    def room_for(self, tile: Tile) -> tuple[int, int]:
        """The shape of the scratch memory in which the entries of a tile are listed, even if they are all above."""
        return 3, (tile.height + BLOCK_ROWS) * (tile.width + 2 * BLOCK_COLS)

    def above(self, tile: Tile, limits: Sequence[Limits], room: NDArray[np.int32]) -> Entries:
        """The entries of a tile that are above any of the limits, in no order. room: int32, see `room_for`."""
        first = tile.cols.start // BLOCK_COLS
        wide = slice(first * BLOCK_COLS, min(-(-tile.cols.stop // BLOCK_COLS) * BLOCK_COLS, self._right_rows))
        height = -(-(tile.rows.stop - tile.rows.start) // BLOCK_ROWS) * BLOCK_ROWS
        width = -(-(wide.stop - wide.start) // BLOCK_COLS) * BLOCK_COLS
        rows, starts = _padded(self._left[tile.rows], height, 0), _padded(self._starts[tile.rows], height, 0)
        row_limits = np.stack([_padded(each.row[tile.rows], height, BEYOND) for each in limits])
        col_limits = np.stack([_padded(each.col[wide], width, BEYOND) for each in limits])
        code = _machine_code(len(limits))
        if code is None:
            raise ValueError("this processor has no products of bytes")
        found = code.scan(
            *map(address, (rows, starts, row_limits, self._blocks[first], col_limits, *room)),
            rows.shape[1] // GROUP,
            height // BLOCK_ROWS,
            width // BLOCK_COLS,
        )
        entries = Entries(room[0, :found] + tile.rows.start, room[1, :found] + wide.start, room[2, :found].copy())
        if wide == tile.cols:
            return entries
        return entries.chosen((entries.cols >= tile.cols.start) & (entries.cols < tile.cols.stop))


def can_multiply(left: NDArray[Any]) -> bool:
    """Whether there are products of bytes for these rows on this machine."""
    return left.dtype == np.int8 and left.shape[1] <= MOST_DIM and _machine_code(1) is not None


def address(array: NDArray[Any]) -> int:
    """Where an array lies, as the functions take it; it must be C-contiguous."""
    if not array.flags.c_contiguous:
        raise ValueError("expected a C-contiguous array")
    return int(array.ctypes.data)


def _padded(values: NDArray[Any], count: int, filler: int) -> NDArray[Any]:
    """`count` rows of values, the last ones made of the filler, where there are fewer."""
    if len(values) == count:
        return values
    out = np.full((count, *values.shape[1:]), filler, values.dtype)
    out[: len(values)] = values
    return out


def _in_blocks(numbers: NDArray[np.int8]) -> NDArray[np.uint8]:
    """(B, D/4, 32, 4): of each 32 columns, groups of four coordinates side by side, as unsigned bytes."""
    count, width = numbers.shape
    blocks = np.empty((-(-count // BLOCK_COLS), width // GROUP, BLOCK_COLS, GROUP), np.uint8)
    words = blocks.view(np.uint32)[..., 0]

    def convert(start: int, stop: int) -> None:
        block = np.full((stop - start, width), OFFSET, np.uint8)
        part = numbers[start : min(stop, count)]
        block[: len(part)] = part.view(np.uint8) ^ np.uint8(OFFSET)
        four = block.view(np.uint32).reshape(-1, BLOCK_COLS, width // GROUP)
        words[start // BLOCK_COLS : stop // BLOCK_COLS] = four.transpose(0, 2, 1)

    in_parts(len(blocks) * BLOCK_COLS, COLUMNS_AT_ONCE, convert)
    return blocks


@dataclass(frozen=True)
class _MachineCode:
    """`scan` releases the interpreter lock and returns how many entries it listed."""

    scan: Callable[..., int]
    engine: Any
    """Keeps the machine code alive."""


def _processor() -> Any:
    """LLVM's binding, where it is there and the processor has the instructions; else None."""
    try:
        from llvmlite import binding
    except (ImportError, OSError):
        return None
    features = binding.get_host_cpu_features()
    return binding if all(features.get(name) for name in NEEDED) else None


@cache
def _machine_code(limits: int) -> _MachineCode | None:
    """The function that compares with so many limits, for this processor; None where it cannot be made."""
    binding = _processor()
    try:
        return None if binding is None else _compiled(binding, limits)
    except RuntimeError:
        return None


def _compiled(binding: Any, limits: int) -> _MachineCode:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(), opt=3, jit=True
    )
    module = binding.parse_assembly(_DECLARATIONS + _scan(limits))
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    tuning = binding.PipelineTuningOptions()
    tuning.speed_level = 2
    tuning.loop_unrolling = tuning.loop_vectorization = tuning.slp_vectorization = False  # it is all by hand
    passes = binding.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 8, *[ctypes.c_int64] * 3)
    return _MachineCode(kind(engine.get_function_address("scan")), engine)


_DECLARATIONS = f"""
declare i64 @llvm.cttz.i64(i64, i1)
; Its older types, which newer versions of LLVM translate.
declare {_SUMS} @llvm.x86.avx512.vpdpbusd.512({_SUMS}, {_SUMS}, {_SUMS})
"""


def _scan(limits: int) -> str:
    """Columns by blocks, rows by blocks within them; x rows of `groups` times four bytes, y blocks of columns.

    Lists (row, col, value) in %rows, %cols, %values where starts_i + Σ x·y > row_limits_li + col_limits_lj for any l.
    """
    variables = "\n".join(f"  %sum{r}.{v} = alloca {_SUMS}" for r, v in _BLOCK)
    body = _loop("cb", "%col_blocks", _column_block(limits))
    return f"""
define i64 @scan(ptr %x, ptr %starts, ptr %row_limits, ptr %y, ptr %col_limits,
                 ptr %rows, ptr %cols, ptr %values, i64 %groups, i64 %row_blocks, i64 %col_blocks)
                "prefer-vector-width"="512" nounwind {{
  %found.at = alloca i64
  store i64 0, ptr %found.at
  %cb.at = alloca i64
  %rb.at = alloca i64
  %g.at = alloca i64
  %w.at = alloca i64
  %left.at = alloca i64
  %flags = alloca [{len(_BLOCK)} x i16], align 8
  %sums = alloca [{len(_BLOCK)} x {_SUMS}]
{variables}
  %row_bytes = mul i64 %groups, {GROUP}
  %block_bytes = mul i64 %groups, {GROUP * BLOCK_COLS}
  %height = mul i64 %row_blocks, {BLOCK_ROWS}
  %width = mul i64 %col_blocks, {BLOCK_COLS}
{body}
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
{name}.body:
{body}
  %{name}.next = add i64 %{name}, 1
  store i64 %{name}.next, ptr %{name}.at
  br label %{name}.head
{name}.done:
"""


def _column_block(limits: int) -> str:
    return f"""
  %y.offset = mul i64 %cb, %block_bytes
  %y.block = getelementptr i8, ptr %y, i64 %y.offset
  %col.first = mul i64 %cb, {BLOCK_COLS}
{_loop("rb", "%row_blocks", _block(limits))}"""


def _block(limits: int) -> str:
    """The sums of a block, their comparison with the limits, and the list of those above."""
    lines = [f"  %row.first = mul i64 %rb, {BLOCK_ROWS}"]
    for row in range(BLOCK_ROWS):
        lines += [
            f"  %row{row} = add i64 %row.first, {row}",
            f"  %x.offset{row} = mul i64 %row{row}, %row_bytes",
            f"  %x{row} = getelementptr i8, ptr %x, i64 %x.offset{row}",
            *_broadcast(f"start{row}", "%starts", f"%row{row}"),
        ]
        lines += [f"  store {_SUMS} %start{row}, ptr %sum{row}.{v}" for v in range(VECTORS)]
    lines.append(_loop("g", "%groups", _products()))
    lines += _comparisons(limits)
    lines.append(_loop("w", str(len(_BLOCK) * LANES // WORD), _listing()))
    return "\n".join(lines)


def _broadcast(name: str, base: str, index: str) -> list[str]:
    """%name: the 32-bit number at base[index], in every lane."""
    return [
        f"  %{name}.p = getelementptr i32, ptr {base}, i64 {index}",
        f"  %{name}.s = load i32, ptr %{name}.p, align 4",
        f"  %{name}.v = insertelement {_SUMS} poison, i32 %{name}.s, i32 0",
        f"  %{name} = shufflevector {_SUMS} %{name}.v, {_SUMS} poison, <{LANES} x i32> zeroinitializer",
    ]


def _products() -> str:
    lines = [
        f"  %y.step = mul i64 %g, {GROUP * BLOCK_COLS}",
        "  %y.group = getelementptr i8, ptr %y.block, i64 %y.step",
    ]
    for vector in range(VECTORS):
        lines += [
            f"  %y.p{vector} = getelementptr i8, ptr %y.group, i64 {GROUP * LANES * vector}",
            f"  %y.v{vector} = load {_SUMS}, ptr %y.p{vector}, align 1",
        ]
    for row in range(BLOCK_ROWS):
        lines += _broadcast(f"x.v{row}", f"%x{row}", "%g")
        for v in range(VECTORS):
            lines += [
                f"  %old{row}.{v} = load {_SUMS}, ptr %sum{row}.{v}",
                f"  %new{row}.{v} = call {_SUMS} @llvm.x86.avx512.vpdpbusd.512"
                f"({_SUMS} %old{row}.{v}, {_SUMS} %y.v{v}, {_SUMS} %x.v{row})",
                f"  store {_SUMS} %new{row}.{v}, ptr %sum{row}.{v}",
            ]
    return "\n".join(lines)


def _comparisons(limits: int) -> list[str]:
    """Flags of the entries above any limit, 16 a word, and the sums, both to memory."""
    lines = []
    for n in range(limits):
        lines += [f"  %height.{n} = mul i64 %height, {n}", f"  %width.{n} = mul i64 %width, {n}"]
        for v in range(VECTORS):
            lines += [
                f"  %col.{n}.{v} = add i64 %col.first, {LANES * v}",
                f"  %col.at.{n}.{v} = add i64 %col.{n}.{v}, %width.{n}",
                f"  %cl.p{n}.{v} = getelementptr i32, ptr %col_limits, i64 %col.at.{n}.{v}",
                f"  %cl{n}.{v} = load {_SUMS}, ptr %cl.p{n}.{v}, align 4",
            ]
    for row, v in _BLOCK:
        name, place = f"{row}.{v}", row * VECTORS + v
        lines.append(f"  %all{name} = load {_SUMS}, ptr %sum{name}")
        flags = []
        for n in range(limits):
            if v == 0:
                lines.append(f"  %row.at.{row}.{n} = add i64 %row{row}, %height.{n}")
                lines += _broadcast(f"rl{row}.{n}", "%row_limits", f"%row.at.{row}.{n}")
            lines += [
                f"  %limit{name}.{n} = add {_SUMS} %rl{row}.{n}, %cl{n}.{v}",
                f"  %hit{name}.{n} = icmp sgt {_SUMS} %all{name}, %limit{name}.{n}",
            ]
            flags.append(f"%hit{name}.{n}")
            if n:
                lines.append(f"  %any{name}.{n} = or <{LANES} x i1> {flags[0]}, {flags[1]}")
                flags = [f"%any{name}.{n}"]
        lines += [
            f"  %flag{name} = bitcast <{LANES} x i1> {flags[0]} to i16",
            f"  %flag.p{name} = getelementptr i16, ptr %flags, i64 {place}",
            f"  store i16 %flag{name}, ptr %flag.p{name}",
            f"  %held.p{name} = getelementptr {_SUMS}, ptr %sums, i64 {place}",
            f"  store {_SUMS} %all{name}, ptr %held.p{name}",
        ]
    return lines


def _listing() -> str:
    """Row, column and value of every flag of the w-th word of the block."""
    stores = ""
    for name in ("row", "col", "value"):
        stores += f"""
  %{name}.p = getelementptr i32, ptr %{name}s, i64 %found
  store i32 %{name}.32, ptr %{name}.p"""
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
  %sum.p = getelementptr i32, ptr %sums, i64 %entry
  %value.32 = load i32, ptr %sum.p
  %found = load i64, ptr %found.at{stores}
  %found.next = add i64 %found, 1
  store i64 %found.next, ptr %found.at
  %less = sub i64 %left, 1
  %rest = and i64 %left, %less
  store i64 %rest, ptr %left.at
  br label %bits.head
bits.done:"""
