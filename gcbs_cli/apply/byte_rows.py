"""Rows as bytes: lines of JSONL, records of CSV, rows of .npy or samples of .tar, as Arrow arrays of binary values."""

import os
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gcbs_cli.data.files import FileStamp, one_line, open_unchanged, read_bytes
from gcbs_cli.data.npy import check_size, read_header
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput

_BLOCK_BYTES: Final = 1 << 22
_BOM: Final = b"\xef\xbb\xbf"
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34


@dataclass(frozen=True)
class ByteRows:
    """A file as rows of bytes."""

    stamp: FileStamp
    prefix: bytes
    """Comes before the rows and stays there: a header, a byte order mark."""
    layout: Any
    """What files of one data set have in common: columns, or shape and type of a row."""
    arrays: Callable[[], Iterator[Any]]
    """Yields all rows as Arrow arrays. Raises BadInput for a damaged file and for one that changes meanwhile."""
    suffix: bytes = b""
    """Comes after the rows."""


def open_lines(stamp: FileStamp, *, quoted: bool, header: bool) -> ByteRows:
    """Open JSONL, or CSV by RFC 4180: there, a line end inside quotes belongs to the record.

    A last line without an end gets one, for it may be followed by another. Empty lines are no rows and are dropped.
    Raises BadInput.
    """
    with open_unchanged(stamp) as descriptor:
        prefix = _BOM if os.pread(descriptor, len(_BOM), 0) == _BOM else b""
    if header:
        first = next(_records(stamp, b"", quoted), None)
        if first is None:
            raise BadInput(f"{stamp.shown}: has no header line")
        prefix = first[0][: first[1][1]]

    def arrays() -> Iterator[Any]:
        for data, bounds in _records(stamp, prefix, quoted):
            begins = np.frombuffer(data, np.uint8)[bounds[:-1]]
            filled = (begins != _NEWLINE) & (begins != _RETURN)
            rows = _array(data, bounds)
            yield rows if filled.all() else rows.filter(filled)

    return ByteRows(stamp, prefix, prefix.split() if header else None, arrays)


def open_npy_rows(stamp: FileStamp) -> ByteRows:
    """Open a .npy array of any shape and type of fixed size, along its first axis. Raises BadInput."""
    with open_unchanged(stamp) as descriptor:
        shape, fortran_order, stored, offset = read_header(stamp, descriptor)
        check_size(stamp, shape, stored, offset)
        if stored.hasobject or not shape or 0 in (stored.itemsize, *shape) or (fortran_order and len(shape) > 1):
            raise BadInput(
                f"{stamp.shown}: found an array of shape {shape}, expected rows in C order, of numbers or"
                " texts that are not empty; write it with np.save"
            )
        prefix = read_bytes(descriptor, offset, 0, stamp)
    bounds = offset + np.arange(shape[0] + 1) * ((stamp.size - offset) // shape[0])
    return ByteRows(stamp, prefix, (stored.str, shape[1:]), partial(_pieces, stamp, bounds))


def open_samples(stamp: FileStamp) -> ByteRows:
    """Open a .tar by webdataset's samples: members in a row whose names are the same up to their first dot.

    Raises BadInput.
    """
    try:
        with open_unchanged(stamp) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
            members = tarfile.TarFile(fileobj=file).getmembers()
    except tarfile.TarError as error:
        raise BadInput(f"{stamp.shown}: no tar archive, or damaged: {one_line(error)}") from None
    if not members:
        raise BadInput(f"{stamp.shown}: found an empty archive, expected samples")
    begins = [next(sample).offset for _, sample in groupby(members, key=_sample_name)]
    end = members[-1].offset_data + -(-members[-1].size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    bounds = np.array([*begins, end], np.int64)
    return ByteRows(stamp, b"", None, partial(_pieces, stamp, bounds), suffix=bytes(2 * tarfile.BLOCKSIZE))


def _sample_name(member: tarfile.TarInfo) -> tuple[str, str]:
    folder, name = os.path.split(member.name)
    return folder, name.split(".")[0]


def _pieces(stamp: FileStamp, bounds: Ints) -> Iterator[Any]:
    """Yield the rows that begin at these bytes of a file, each where the one before ends, a few MiB at a time."""
    at_once = max(1, _BLOCK_BYTES * (len(bounds) - 1) // int(bounds[-1]))
    with open_unchanged(stamp) as descriptor:
        for start in range(0, len(bounds) - 1, at_once):
            part = bounds[start : start + at_once + 1]
            yield _array(read_bytes(descriptor, int(part[-1] - part[0]), int(part[0]), stamp), part - part[0])


def _array(data: bytes, bounds: Ints) -> Any:
    """Return rows as an array of large binary values; row i is `data[bounds[i]:bounds[i + 1]]`."""
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)


def _records(stamp: FileStamp, prefix: bytes, quoted: bool) -> Iterator[tuple[bytes, Ints]]:
    """Yield the records after the prefix as bytes and bounds; the last one gets a line end like the prefix's."""
    rest, offset = b"", len(prefix)
    with open_unchanged(stamp) as descriptor:
        while data := os.pread(descriptor, max(_BLOCK_BYTES, len(rest)), offset):
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


def _ends(data: bytes, quoted: bool) -> Ints:
    """Return one past each line end that ends a record; `data` starts with a record."""
    values = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(values == _NEWLINE)
    if quoted:
        quotes = np.flatnonzero(values == _QUOTE)
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return ends.astype(np.int64) + 1
