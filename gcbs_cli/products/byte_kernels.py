"""Machine code for products of bytes: tiles of 8-bit rows against limits, and float32 dot products of chosen pairs.

Written as LLVM's intermediate code and compiled for the processor at hand when first asked for (about a tenth of a
second), since neither numpy nor torch multiplies bytes with 32-bit sums and compares them before they reach memory.
The instruction is AVX-512 VNNI's vpdpbusd: 64 products of an unsigned and a signed byte, added four by four to sixteen
32-bit sums, twice the rate of bfloat16 and four times that of float32.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from numpy.typing import NDArray

LANES = 16
"""32-bit numbers in a 512-bit register."""
GROUP = 4
"""Bytes that one instruction adds to a 32-bit sum."""
BLOCK_ROWS = 12
COLUMN_VECTORS = 2
BLOCK_COLS = COLUMN_VECTORS * LANES
"""A block of sums stays in 24 of the 32 registers while its products are added."""
NEEDED = ("avx512f", "avx512bw", "avx512vl", "avx512vnni")

_VECTOR = f"<{LANES} x i32>"
_FLOATS = f"<{LANES} x float>"
_SUMS = [(row, vector) for row in range(BLOCK_ROWS) for vector in range(COLUMN_VECTORS)]


@dataclass(frozen=True)
class ByteKernels:
    """The compiled functions; both release the interpreter lock.

    `screen(x, groups, row_blocks, starts, scales, limits, y, col_blocks, col_scales, col_margins, rows, cols)` writes
    the places (int32) where starts_i + Σ x·y, times scales_i · col_scales_j, plus col_margins_j reaches limits_i, and
    returns how many. x: rows of signed bytes, `groups` times four of them; y: blocks of columns of unsigned bytes, four
    by four beside each other. `dots(x, y, dim, count, rows, cols, values)` writes float32 x_row · y_col.
    """

    screen: Callable[..., int]
    dots: Callable[..., None]
    engine: Any
    """Keeps the machine code alive."""


@cache
def byte_kernels() -> ByteKernels | None:
    """The functions for this processor, or None where it lacks the instructions or LLVM is not there."""
    try:
        from llvmlite import binding
    except (ImportError, OSError):
        return None
    features = binding.get_host_cpu_features()
    if not all(features.get(name) for name in NEEDED):
        return None
    try:
        return _compile(binding, features.flatten())
    except RuntimeError:
        return None


def address(array: NDArray[Any]) -> int:
    """Where a C-contiguous array lies, as the functions take it."""
    assert array.flags.c_contiguous
    return int(array.ctypes.data)


def _compile(binding: Any, features: str) -> ByteKernels:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features, opt=3, jit=True
    )
    module = binding.parse_assembly(_screen_code() + _dots_code())
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
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    screen = ctypes.CFUNCTYPE(size, pointer, size, size, *[pointer] * 4, size, *[pointer] * 4)
    dots = ctypes.CFUNCTYPE(None, pointer, pointer, size, size, *[pointer] * 3)
    return ByteKernels(screen(engine.get_function_address("screen")), dots(engine.get_function_address("dots")), engine)


_ATTRIBUTES = '"prefer-vector-width"="512" nounwind'


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


def _screen_code() -> str:
    variables = "\n".join(f"  %sum{r}.{v} = alloca {_VECTOR}" for r, v in _SUMS)
    return f"""
define i64 @screen(ptr %x, i64 %groups, i64 %row_blocks, ptr %starts, ptr %scales, ptr %limits,
                   ptr %y, i64 %col_blocks, ptr %col_scales, ptr %col_margins, ptr %rows, ptr %cols) {_ATTRIBUTES} {{
  %found.at = alloca i64
  store i64 0, ptr %found.at
  %cb.at = alloca i64
  %rb.at = alloca i64
  %g.at = alloca i64
  %m.at = alloca i64
  %left.at = alloca i16
  %masks = alloca [{len(_SUMS)} x i16]
{variables}
  %row_bytes = mul i64 %groups, {GROUP}
  %block_bytes = mul i64 %groups, {GROUP * BLOCK_COLS}
{_loop("cb", "%col_blocks", _column_block())}
  %found.all = load i64, ptr %found.at
  ret i64 %found.all
}}
"""


def _column_block() -> str:
    return f"""
  %y.offset = mul i64 %cb, %block_bytes
  %y.block = getelementptr i8, ptr %y, i64 %y.offset
  %col.first = mul i64 %cb, {BLOCK_COLS}
{_loop("rb", "%row_blocks", _block())}"""


def _block() -> str:
    """Sums of a block, their comparison, and the places where it holds."""
    lines = [f"  %row.first = mul i64 %rb, {BLOCK_ROWS}"]
    for row in range(BLOCK_ROWS):
        lines += [
            f"  %row{row} = add i64 %row.first, {row}",
            f"  %x.offset{row} = mul i64 %row{row}, %row_bytes",
            f"  %x{row} = getelementptr i8, ptr %x, i64 %x.offset{row}",
            *_broadcast(f"start{row}", "i32", "%starts", f"%row{row}"),
        ]
        lines += [f"  store {_VECTOR} %start{row}, ptr %sum{row}.{v}" for v in range(COLUMN_VECTORS)]
    lines.append(_loop("g", "%groups", _products()))
    lines += _comparisons()
    lines.append(_loop("m", str(len(_SUMS)), _places()))
    return "\n".join(lines)


def _broadcast(name: str, kind: str, base: str, index: str) -> list[str]:
    """%name: the number of this kind at base[index], in every lane."""
    vector = f"<{LANES} x {kind}>"
    return [
        f"  %{name}.p = getelementptr {kind}, ptr {base}, i64 {index}",
        f"  %{name}.s = load {kind}, ptr %{name}.p, align 4",
        f"  %{name}.v = insertelement {vector} poison, {kind} %{name}.s, i32 0",
        f"  %{name} = shufflevector {vector} %{name}.v, {vector} poison, <{LANES} x i32> zeroinitializer",
    ]


def _products() -> str:
    lines = [
        f"  %y.step = mul i64 %g, {GROUP * BLOCK_COLS}",
        "  %y.group = getelementptr i8, ptr %y.block, i64 %y.step",
    ]
    for vector in range(COLUMN_VECTORS):
        lines += [
            f"  %y.p{vector} = getelementptr i8, ptr %y.group, i64 {GROUP * LANES * vector}",
            f"  %y.v{vector} = load {_VECTOR}, ptr %y.p{vector}, align 64",
        ]
    for row in range(BLOCK_ROWS):
        lines += _broadcast(f"x.v{row}", "i32", f"%x{row}", "%g")
        for v in range(COLUMN_VECTORS):
            lines += [
                f"  %old{row}.{v} = load {_VECTOR}, ptr %sum{row}.{v}",
                f"  %new{row}.{v} = call {_VECTOR} @llvm.x86.avx512.vpdpbusd.512"
                f"({_VECTOR} %old{row}.{v}, {_VECTOR} %y.v{v}, {_VECTOR} %x.v{row})",
                f"  store {_VECTOR} %new{row}.{v}, ptr %sum{row}.{v}",
            ]
    return "\n".join(lines)


def _comparisons() -> list[str]:
    lines = []
    for vector in range(COLUMN_VECTORS):
        lines += [
            f"  %col.{vector} = add i64 %col.first, {LANES * vector}",
            f"  %cs.p{vector} = getelementptr float, ptr %col_scales, i64 %col.{vector}",
            f"  %cs{vector} = load {_FLOATS}, ptr %cs.p{vector}, align 64",
            f"  %cm.p{vector} = getelementptr float, ptr %col_margins, i64 %col.{vector}",
            f"  %cm{vector} = load {_FLOATS}, ptr %cm.p{vector}, align 64",
        ]
    for row in range(BLOCK_ROWS):
        lines += _broadcast(f"scale{row}", "float", "%scales", f"%row{row}")
        lines += _broadcast(f"limit{row}", "float", "%limits", f"%row{row}")
        for v in range(COLUMN_VECTORS):
            name = f"{row}.{v}"
            lines += [
                f"  %all{name} = load {_VECTOR}, ptr %sum{name}",
                f"  %real{name} = sitofp {_VECTOR} %all{name} to {_FLOATS}",
                f"  %part{name} = fmul {_FLOATS} %real{name}, %cs{v}",
                f"  %value{name} = call {_FLOATS} @llvm.fma.v16f32"
                f"({_FLOATS} %part{name}, {_FLOATS} %scale{row}, {_FLOATS} %cm{v})",
                f"  %hit{name} = fcmp oge {_FLOATS} %value{name}, %limit{row}",
                f"  %mask{name} = bitcast <{LANES} x i1> %hit{name} to i16",
                f"  %mask.p{name} = getelementptr i16, ptr %masks, i64 {row * COLUMN_VECTORS + v}",
                f"  store i16 %mask{name}, ptr %mask.p{name}",
            ]
    return lines


def _places() -> str:
    """Row and column of every bit of the m-th mask of the block."""
    return f"""
  %mask.p = getelementptr i16, ptr %masks, i64 %m
  %mask = load i16, ptr %mask.p
  store i16 %mask, ptr %left.at
  br label %bits.head
bits.head:
  %left = load i16, ptr %left.at
  %none = icmp eq i16 %left, 0
  br i1 %none, label %bits.done, label %bits.body
bits.body:
  %lane = call i16 @llvm.cttz.i16(i16 %left, i1 true)
  %lane.wide = zext i16 %lane to i64
  %m.row = udiv i64 %m, {COLUMN_VECTORS}
  %m.vector = urem i64 %m, {COLUMN_VECTORS}
  %row = add i64 %row.first, %m.row
  %vector.col = mul i64 %m.vector, {LANES}
  %vector.at = add i64 %col.first, %vector.col
  %col = add i64 %vector.at, %lane.wide
  %found = load i64, ptr %found.at
  %row.p = getelementptr i32, ptr %rows, i64 %found
  %row.32 = trunc i64 %row to i32
  store i32 %row.32, ptr %row.p
  %col.p = getelementptr i32, ptr %cols, i64 %found
  %col.32 = trunc i64 %col to i32
  store i32 %col.32, ptr %col.p
  %found.next = add i64 %found, 1
  store i64 %found.next, ptr %found.at
  %less = sub i16 %left, 1
  %rest = and i16 %left, %less
  store i16 %rest, ptr %left.at
  br label %bits.head
bits.done:"""


def _dots_code() -> str:
    return f"""
declare {_FLOATS} @llvm.fma.v16f32({_FLOATS}, {_FLOATS}, {_FLOATS})
declare float @llvm.vector.reduce.fadd.v16f32(float, {_FLOATS})
declare i16 @llvm.cttz.i16(i16, i1)
; Its older types, which newer versions of LLVM translate.
declare {_VECTOR} @llvm.x86.avx512.vpdpbusd.512({_VECTOR}, {_VECTOR}, {_VECTOR})

define void @dots(ptr %x, ptr %y, i64 %dim, i64 %count, ptr %rows, ptr %cols, ptr %values) {_ATTRIBUTES} {{
  %n.at = alloca i64
  %s.at = alloca i64
  %t.at = alloca i64
  %sum = alloca {_FLOATS}
  %total.at = alloca float
  %steps = udiv i64 %dim, {LANES}
  %whole = mul i64 %steps, {LANES}
  %odd = sub i64 %dim, %whole
{_loop("n", "%count", _dot_code())}
  ret void
}}
"""


def _dot_code() -> str:
    ends, steps, rest = "", f"  %c = mul i64 %s, {LANES}", "  %e = add i64 %t, %whole"
    for side, index in (("x", "rows"), ("y", "cols")):
        ends += f"""
  %{side}.ip = getelementptr i32, ptr %{index}, i64 %n
  %{side}.i = load i32, ptr %{side}.ip
  %{side}.w = zext i32 %{side}.i to i64
  %{side}.o = mul i64 %{side}.w, %dim
  %{side}.row = getelementptr float, ptr %{side}, i64 %{side}.o"""
        steps += f"""
  %{side}.p = getelementptr float, ptr %{side}.row, i64 %c
  %{side}.v = load {_FLOATS}, ptr %{side}.p, align 4"""
        rest += f"""
  %{side}.q = getelementptr float, ptr %{side}.row, i64 %e
  %{side}.s = load float, ptr %{side}.q"""
    steps += f"""
  %old = load {_FLOATS}, ptr %sum
  %new = call {_FLOATS} @llvm.fma.v16f32({_FLOATS} %x.v, {_FLOATS} %y.v, {_FLOATS} %old)
  store {_FLOATS} %new, ptr %sum"""
    rest += """
  %before = load float, ptr %total.at
  %one = fmul float %x.s, %y.s
  %after = fadd float %before, %one
  store float %after, ptr %total.at"""
    return f"""{ends}
  store {_FLOATS} zeroinitializer, ptr %sum
{_loop("s", "%steps", steps)}
  %lanes = load {_FLOATS}, ptr %sum
  %lanes.sum = call reassoc float @llvm.vector.reduce.fadd.v16f32(float -0.0, {_FLOATS} %lanes)
  store float %lanes.sum, ptr %total.at
{_loop("t", "%odd", rest)}
  %value = load float, ptr %total.at
  %value.p = getelementptr float, ptr %values, i64 %n
  store float %value, ptr %value.p"""
