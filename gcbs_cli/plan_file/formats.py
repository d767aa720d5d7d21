"""Permutations as .npy, .parquet and text: written to an open file, read from a path or a stream."""

import select
import sys
from array import array
from collections.abc import Iterator
from typing import BinaryIO, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from gcbs_cli.data.columns import listed
from gcbs_cli.data.files import stamp_file, unreadable
from gcbs_cli.data.npy import read_vector
from gcbs_cli.data.tables import open_table
from gcbs_cli.plan_file.writing import write_error
from gcbs_cli.system.errors import BadInput, GcbsError

STDIN: Final = "stdin"
_WRITE_LINES: Final = 1 << 17
_LINE_BYTES: Final = 1024
"""An int64 has 20 characters; blanks around it are allowed, a file without line ends is not read to its end."""
_SHOWN_BYTES: Final = 40
_ROWS_AT_ONCE: Final = 1 << 16

Perm = NDArray[np.int64]


def wrong_length(source: str, found: object, rows: int) -> BadInput:
    """Return the error for a permutation that is shorter or longer than the data."""
    return BadInput(f"{source}: {found} indices, but the data has {rows} rows; was the plan made for other data?")


def write_npy(file: BinaryIO, perm: Perm) -> None:
    """Write header and values with plain writes: `np.save` hides the reason when the disk is full."""
    npy.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": perm.shape})
    file.write(perm.astype("<i8", copy=False).data)


def write_parquet(file: BinaryIO, perm: Perm, batch_size: int) -> None:
    """Write the columns `index` (int64), the row at each position, and `batch` (int32), the number of its batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    batch = (np.arange(len(perm)) // batch_size).astype(np.int32)
    pq.write_table(pa.table({"index": perm, "batch": batch}), file, use_dictionary=["batch"])


def write_text(file: BinaryIO, perm: Perm) -> None:
    """Write one index a line."""
    file.writelines(_lines(perm))


def write_stdout(perm: Perm) -> None:
    """Write one index a line to stdout; BrokenPipeError passes through, other failures raise GcbsError."""
    if sys.stdout is None:
        raise GcbsError("stdout is closed; write to a file with -o")
    sys.stdout.flush()
    buffer = sys.stdout.buffer
    # Past the buffer: what a failed write leaves in it would fail once more, and loudly, when Python exits.
    raw = getattr(buffer, "raw", buffer)
    try:
        for lines in _lines(perm):
            rest = memoryview(lines)
            while rest:
                written = raw.write(rest)
                if written is None:  # a pipe that does not block is full
                    select.select([], [raw], [])
                rest = rest[written or 0 :]
        buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise write_error("to stdout", error) from error


def read_npy(path: str, rows: int | None = None) -> Perm:
    """Read (N,) int64 from a `.npy` file. Raises BadInput for another dtype or shape and for a damaged file."""
    return read_vector(path, np.dtype("<i8"), "int64; write it with np.save(path, perm.astype('int64'))")


def read_parquet(path: str, rows: int | None = None) -> Perm:
    """Read the column `index`. Raises BadInput when it is missing, of another type or has nulls."""
    stamp = stamp_file(path)
    with open_table(stamp) as table:
        names = list(table.schema.names)
        if names.count("index") != 1:
            raise BadInput(f"{stamp.shown}: found the columns {listed(names)}, expected one named index")
        kind = str(table.schema.field("index").type)
        if kind != "int64":
            raise BadInput(f"{stamp.shown}: found the column index of {kind}, expected int64")
        perm = np.empty(table.rows, np.int64)
        done = 0
        for values in table.column("index", _ROWS_AT_ONCE):
            if values.null_count:
                raise BadInput(f"{stamp.shown}: found nulls in the column index, expected each row once")
            perm[done : done + len(values)] = values.to_numpy()
            done += len(values)
    return perm


def read_text_file(path: str, rows: int | None = None) -> Perm:
    """Read one index a line from a file; see `read_text`."""
    stamp = stamp_file(path)
    try:
        with open(path, "rb") as file:
            return read_text(file, stamp.shown, rows)
    except OSError as error:
        raise unreadable(path, error) from None


def read_stdin(rows: int | None) -> Perm:
    """Read one index a line from stdin; see `read_text`."""
    if sys.stdin is None:
        raise BadInput("stdin is closed; pipe the indices in, or name a file")
    try:
        return read_text(sys.stdin.buffer, STDIN, rows)
    except OSError as error:
        raise BadInput(f"stdin cannot be read: {error.strerror or error}") from error


def read_text(file: BinaryIO, source: str, rows: int | None) -> Perm:
    """Read one index a line; blanks around an index, Windows line ends and empty lines at the end are allowed.

    Raises BadInput for an empty file, more than `rows` lines, and a line that is no index, with its number.
    """
    found = array("q")
    blank = 0
    for number, line in enumerate(iter(lambda: file.readline(_LINE_BYTES), b""), 1):
        if line.isspace():
            blank = blank or number
            continue
        if blank:
            raise _bad_line(source, blank, b"")
        try:
            if b"_" in line or len(line) == _LINE_BYTES:  # Python reads 1_0 as 10
                raise ValueError
            found.append(int(line))
        except (ValueError, OverflowError):
            raise _bad_line(source, number, line) from None
        if rows is not None and number > rows:
            raise wrong_length(source, f"more than {rows}", rows)
    if not found:
        hint = "no indices on stdin; did the command before the pipe fail?" if source == STDIN else None
        raise BadInput(hint or f"{source}: holds no indices")
    return np.array(found, dtype=np.int64)


def _bad_line(source: str, number: int, line: bytes) -> BadInput:
    begins = line[:_SHOWN_BYTES].decode("ascii", "backslashreplace").strip()
    found = repr(begins) + (" and more" if len(line) > _SHOWN_BYTES else "") if begins else "a blank line"
    return BadInput(f"{source}: line {number}: expected an index, found {found}")


def _lines(perm: Perm) -> Iterator[bytes]:
    for start in range(0, len(perm), _WRITE_LINES):
        lines = "\n".join(map(str, perm[start : start + _WRITE_LINES].tolist()))
        yield lines.encode("ascii") + b"\n"
