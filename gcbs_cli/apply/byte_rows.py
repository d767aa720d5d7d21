"""Rows as bytes, lines of JSONL, records of CSV or rows of .npy, through buckets into plan order."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.apply.buckets import Buckets
from gcbs_cli.data.files import FileStamp, open_unchanged, read_bytes
from gcbs_cli.data.npy import check_size, read_header
from gcbs_cli.data.source import shown_shape
from gcbs_cli.system.errors import BadInput

BLOCK_BYTES: Final = 1 << 22
_BOM: Final = b"\xef\xbb\xbf"
_NEWLINE, _QUOTE = 10, 34


@dataclass(frozen=True)
class RowBlock:
    """Consecutive rows: row i is `data[bounds[i]:bounds[i + 1]]`, its line end included. bounds: (n + 1,) int64."""

    data: bytes
    bounds: NDArray[np.int64]


@dataclass(frozen=True)
class ByteRows:
    """A file as rows of bytes."""

    stamp: FileStamp
    prefix: bytes
    """Comes before the rows and stays there: a header, a byte order mark."""
    layout: Any
    """What files of one data set have in common: columns, or shape and type of a row."""
    blocks: Callable[[], Iterator[RowBlock]]
    """Yields all rows. Raises BadInput for a damaged file and for one that changes meanwhile."""


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
        prefix = first.data[: first.bounds[1]]
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

    def blocks() -> Iterator[RowBlock]:
        with open_unchanged(stamp) as descriptor:
            for start in range(0, shape[0], at_once):
                count = min(at_once, shape[0] - start)
                data = read_bytes(descriptor, count * row_bytes, offset + start * row_bytes, stamp)
                yield RowBlock(data, np.arange(count + 1, dtype=np.int64) * row_bytes)

    return ByteRows(stamp, prefix, (stored.str, shape[1:]), blocks)


class BucketedRows:
    """Rows of bytes on their way to plan order; 24 bytes a row stay in memory, for the plan and the lengths."""

    def __init__(self, buckets: Buckets, limit: int) -> None:
        self._buckets, self._limit = buckets, limit
        self._lengths = np.zeros(buckets.rows, np.int64)

    def fill(self, sources: Sequence[ByteRows]) -> list[int]:
        """Read all rows; return how many each source has. Raises BadInput when the plan has more or fewer."""
        counts, row = [], 0
        for source in sources:
            first = row
            for block in source.blocks():
                view, bounds = memoryview(block.data), block.bounds.tolist()
                count = len(bounds) - 1
                for number, some in self._buckets.deal(row, count, source.stamp.shown):
                    whole = len(some) == count
                    pieces = [view[bounds[i] : bounds[i + 1]] for i in some.tolist()] if not whole else ()
                    self._buckets.files[number].write(view[bounds[0] : bounds[-1]] if whole else b"".join(pieces))
                self._lengths[row : row + count] = np.diff(block.bounds)
                row += count
            counts.append(row - first)
        self._buckets.check_filled(row)
        return counts

    def in_order(self) -> Iterator[list[memoryview]]:
        """Yield all rows in plan order, some at a time."""
        for number, file in enumerate(self._buckets.files):
            wanted = self._buckets.wanted(number)
            length = self._lengths[wanted]
            arrived = np.argsort(wanted)
            offset = np.empty(len(wanted), np.int64)
            offset[arrived] = np.cumsum(length[arrived]) - length[arrived]
            size = int(length.sum())
            if size <= 2 * self._limit or len(self._buckets.files) == 1:
                data = memoryview(_read(file, 0, size))
                ends = (offset + length).tolist()
                yield [data[start:end] for start, end in zip(offset.tolist(), ends, strict=True)]
            else:
                yield from self._gathered(file, offset, length)

    def _gathered(
        self, file: BinaryIO, offset: NDArray[np.int64], length: NDArray[np.int64]
    ) -> Iterator[list[memoryview]]:
        """Yield windows of rows that fit into memory, each read in the order of the file."""
        window = np.cumsum(length) // self._limit
        for part in np.split(np.arange(len(offset)), np.flatnonzero(np.diff(window)) + 1):
            rows: list[memoryview] = [memoryview(b"")] * len(part)
            for place in np.argsort(offset[part]).tolist():
                rows[place] = memoryview(_read(file, int(offset[part[place]]), int(length[part[place]])))
            yield rows


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    data = file.read(size)
    if len(data) != size:
        raise BadInput("a temporary file became shorter; is the disk full?")
    return data


def _filled_lines(stamp: FileStamp, prefix: bytes, quoted: bool) -> Iterator[RowBlock]:
    """Yield the records after the prefix without the empty lines at the end; raises BadInput for one before that."""
    rows, empty = 0, False
    for block in _records(stamp, len(prefix), prefix, quoted=quoted):
        data, bounds = block.data, block.bounds
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
            yield RowBlock(data, bounds[: kept + 1])


def _records(stamp: FileStamp, offset: int, prefix: bytes, *, quoted: bool) -> Iterator[RowBlock]:
    """Yield the records of a file from `offset` on, empty ones too; the last one gets a line end like the prefix's."""
    rest = b""
    with open_unchanged(stamp) as descriptor:
        while data := os.pread(descriptor, max(BLOCK_BYTES, len(rest)), offset):
            offset += len(data)
            rest += data
            ends = _ends(rest, quoted)
            if len(ends):
                whole = int(ends[-1])
                yield RowBlock(rest[:whole], np.concatenate([[0], ends]))
                rest = rest[whole:]
    if rest:
        ends = _ends(rest + b"\n", quoted)
        if not len(ends) or ends[-1] != len(rest) + 1:
            raise BadInput(f"{stamp.shown}: ends inside quotes; a quote is missing, or doubled wrongly")
        line_end = b"\r\n" if prefix.endswith(b"\r\n") else b"\n"
        yield RowBlock(rest + line_end, np.array([0, len(rest) + len(line_end)], np.int64))


def _ends(data: bytes, quoted: bool) -> NDArray[np.int64]:
    """Return one past each line end that ends a record; `data` starts with a record."""
    values = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(values == _NEWLINE)
    if quoted:
        quotes = np.flatnonzero(values == _QUOTE)
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return ends.astype(np.int64) + 1
