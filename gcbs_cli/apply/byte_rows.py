"""Rows as bytes: lines of JSONL, records of CSV or rows of .npy, as Arrow arrays of binary values."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gcbs_cli.data.files import FileStamp, open_unchanged, read_bytes
from gcbs_cli.data.npy import check_size, read_header
from gcbs_cli.data.source import shown_shape
from gcbs_cli.system.errors import BadInput

BLOCK_BYTES: Final = 1 << 22
_BOM: Final = b"\xef\xbb\xbf"
_NEWLINE, _QUOTE = 10, 34

Block = tuple[bytes, NDArray[np.int64]]
"""Consecutive rows: row i is `data[bounds[i]:bounds[i + 1]]`, its line end included; bounds: (n + 1,)."""


@dataclass(frozen=True)
class ByteRows:
    """A file as rows of bytes."""

    stamp: FileStamp
    prefix: bytes
    """Comes before the rows and stays there: a header, a byte order mark."""
    layout: Any
    """What files of one data set have in common: columns, or shape and type of a row."""
    blocks: Callable[[], Iterator[Block]]
    """Yields all rows. Raises BadInput for a damaged file and for one that changes meanwhile."""

    def arrays(self) -> Iterator[Any]:
        """Yield all rows as Arrow arrays of large binary values."""
        for data, bounds in self.blocks():
            buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
            yield pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)


def open_lines(stamp: FileStamp, *, quoted: bool, header: bool) -> ByteRows:
    """Open JSONL, or CSV by RFC 4180: there, a line end inside quotes belongs to the record.

    A last line without an end gets one, for it may be followed by another. Empty lines are no rows: at the end they are
    dropped, before that they are refused. Raises BadInput.
    """
    with open_unchanged(stamp) as descriptor:
        prefix = _BOM if os.pread(descriptor, len(_BOM), 0) == _BOM else b""
    if header:
        first = next(_records(stamp, 0, b"", quoted=quoted), None)
        if first is None:
            raise BadInput(f"{stamp.shown}: has no header line")
        prefix = first[0][: first[1][1]]
    return ByteRows(stamp, prefix, prefix.split() if header else None, lambda: _filled_lines(stamp, prefix, quoted))


def open_npy_rows(stamp: FileStamp) -> ByteRows:
    """Open a .npy array of any shape and type of fixed size, along its first axis. Raises BadInput."""
    with open_unchanged(stamp) as descriptor:
        shape, fortran_order, stored, offset = read_header(stamp, descriptor)
        check_size(stamp, shape, stored, offset)
        if stored.hasobject or not shape or 0 in (stored.itemsize, *shape) or (fortran_order and len(shape) > 1):
            raise BadInput(
                f"{stamp.shown}: found an array of shape {shown_shape(shape)}, expected rows in C order, of numbers or"
                " texts that are not empty; write it with np.save"
            )
        prefix = read_bytes(descriptor, offset, 0, stamp)
    row_bytes = (stamp.size - offset) // shape[0]
    at_once = max(1, BLOCK_BYTES // row_bytes)

    def blocks() -> Iterator[Block]:
        with open_unchanged(stamp) as descriptor:
            for start in range(0, shape[0], at_once):
                count = min(at_once, shape[0] - start)
                data = read_bytes(descriptor, count * row_bytes, offset + start * row_bytes, stamp)
                yield data, np.arange(count + 1, dtype=np.int64) * row_bytes

    return ByteRows(stamp, prefix, (stored.str, shape[1:]), blocks)


def _filled_lines(stamp: FileStamp, prefix: bytes, quoted: bool) -> Iterator[Block]:
    """Yield the records after the prefix without the empty lines at the end; raises BadInput for one before that."""
    rows, empty = 0, False
    for data, bounds in _records(stamp, len(prefix), prefix, quoted=quoted):
        filled = np.diff(bounds) > 2
        for short in np.flatnonzero(~filled).tolist():
            filled[short] = bool(data[bounds[short] : bounds[short + 1]].strip())
        kept = int(np.argmin(filled)) if not filled.all() else len(filled)
        if filled[kept:].any() or (empty and kept):
            row = rows + (0 if empty else kept)
            raise BadInput(f"{stamp.shown}: an empty line where row {row} should be; remove it")
        empty = empty or kept < len(filled)
        rows += kept
        if kept:
            yield data, bounds[: kept + 1]


def _records(stamp: FileStamp, offset: int, prefix: bytes, *, quoted: bool) -> Iterator[Block]:
    """Yield the records of a file from `offset` on, empty ones too; the last one gets a line end like the prefix's."""
    rest = b""
    with open_unchanged(stamp) as descriptor:
        while data := os.pread(descriptor, max(BLOCK_BYTES, len(rest)), offset):
            offset += len(data)
            rest += data
            ends = _ends(rest, quoted)
            if len(ends):
                whole = int(ends[-1])
                yield rest[:whole], np.concatenate([[0], ends])
                rest = rest[whole:]
    if rest:
        ends = _ends(rest + b"\n", quoted)
        if not len(ends) or ends[-1] != len(rest) + 1:
            raise BadInput(f"{stamp.shown}: ends inside quotes; a quote is missing, or doubled wrongly")
        line_end = b"\r\n" if prefix.endswith(b"\r\n") else b"\n"
        yield rest + line_end, np.array([0, len(rest) + len(line_end)], np.int64)


def _ends(data: bytes, quoted: bool) -> NDArray[np.int64]:
    """Return one past each line end that ends a record; `data` starts with a record."""
    values = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(values == _NEWLINE)
    if quoted:
        quotes = np.flatnonzero(values == _QUOTE)
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return ends.astype(np.int64) + 1
