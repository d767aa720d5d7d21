"""Permutations as files: the suffix decides the format, `-` is stdin or stdout."""

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from gcbs_cli.data.files import one_line, open_file, shown, stamp_file, suffix_of
from gcbs_cli.data.npy import read_vector
from gcbs_cli.data.source import listed
from gcbs_cli.data.tables import open_table
from gcbs_cli.plan_file import writing
from gcbs_cli.system.arrays import Array, Ints
from gcbs_cli.system.errors import BadInput

_WRITE_LINES = 1 << 17


def check_suffix(path: Path | str) -> str:
    """Return the suffix that decides the format, in lower case. Raises BadInput for any other than SUFFIXES."""
    suffix = suffix_of(str(path))
    if suffix not in SUFFIXES:
        raise BadInput(
            f"{shown(str(path))}: found the suffix {shown(suffix)}, expected {', '.join(SUFFIXES)}, or - for a pipe"
        )
    return suffix


def read_permutation(path: Path | str) -> Ints:
    """Read a permutation, (N,) int64; `-` reads one index a line from stdin. Whether it is one is not checked.

    Raises BadInput for a file that is missing, damaged or of another type or shape; nothing is ever unpickled.
    """
    suffix = ".txt" if str(path) == "-" else check_suffix(path)
    read, _ = FORMATS[suffix]
    return read(str(path))


def verify_permutation(perm: Array, rows: int, source: str = "permutation") -> None:
    """Raise BadInput, naming what is wrong, unless `perm` holds each of 0..rows-1 exactly once."""
    if perm.ndim != 1 or perm.dtype.kind not in "iu":
        raise BadInput(f"{source}: expected a 1-D array of integers, got shape {perm.shape} of {perm.dtype}")
    if len(perm) != rows:  # refused before anything is made of so many rows as a manifest may claim
        raise BadInput(f"{source}: {len(perm)} indices, but the data has {rows} rows; was it made for other data?")
    inside = perm[(perm >= 0) & (perm < rows)]
    wrong = np.flatnonzero(np.bincount(inside, minlength=rows) != 1)
    if wrong.size:
        raise BadInput(
            f"{source}: {rows} indices, of which outside 0..{rows - 1}: {len(perm) - len(inside)}; missing or there"
            f" twice: {wrong.size}, such as {wrong[:3].tolist()}; plan again"
        )


def write_stdout(perm: Ints) -> None:
    """Write one index a line to stdout; BrokenPipeError passes through, other failures raise GcbsError."""
    sys.stdout.flush()
    # Past the buffer: what a failed write leaves in it would fail once more, and loudly, when Python exits.
    raw = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
    with writing.explained("to stdout"):
        for lines in _lines(perm):
            rest = memoryview(lines)
            while rest:
                rest = rest[raw.write(rest) or 0 :]  # None: a pipe that does not block is full


def write_array(file: BinaryIO, array: Array, batch_size: int = 0) -> None:
    """Write header and values with plain writes: `np.save` hides why the disk does not take them, or even that."""
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    npy.write_array_header_1_0(file, npy.header_data_from_array_1_0(array))
    file.write(array.data)


def _write_parquet(file: BinaryIO, perm: Ints, batch_size: int) -> None:
    """Write the columns `index` (int64), the row at each position, and `batch` (int32), the number of its batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    batch = (np.arange(len(perm)) // batch_size).astype(np.int32)
    pq.write_table(pa.table({"index": perm, "batch": batch}), file, use_dictionary=["batch"])


def _lines(perm: Ints) -> Iterator[bytes]:
    for start in range(0, len(perm), _WRITE_LINES):
        lines = "\n".join(map(str, perm[start : start + _WRITE_LINES].tolist()))
        yield lines.encode("ascii") + b"\n"


def _read_npy(path: str) -> Ints:
    return read_vector(path, "int64")


def _read_parquet(path: str) -> Ints:
    stamp = stamp_file(path)
    with open_table(stamp) as table:
        columns = [f"{field.name} of {field.type}" for field in table.schema_arrow]
        if "index of int64" not in columns:
            raise BadInput(f"{stamp.shown}: found the columns {listed(columns)}, expected one column index of int64")
        indices = table.read(["index"], use_threads=False)["index"]
    if indices.null_count:
        raise BadInput(f"{stamp.shown}: found nulls in the column index, expected each row once")
    return np.array(indices.to_numpy())


def _read_text(path: str) -> Ints:
    source = "stdin" if path == "-" else shown(path)
    with nullcontext(sys.stdin.buffer) if path == "-" else open_file(path) as file:
        words = file.read().split()
    if not words:
        raise BadInput(f"{source}: holds no indices; did the command that wrote it fail?")
    try:
        return np.array(list(map(int, words)), np.int64)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{source}: found no indices ({one_line(error)}), expected one a line") from None


FORMATS: dict[str, tuple[Callable[[str], Ints], Callable[[BinaryIO, Ints, int], None]]] = {
    ".npy": (_read_npy, write_array),
    ".parquet": (_read_parquet, _write_parquet),
    ".txt": (_read_text, lambda file, perm, _: file.writelines(_lines(perm))),
}
"""How to read a file with a suffix, and to write a permutation and the number of each batch of so many rows to one."""
SUFFIXES = tuple(FORMATS)
