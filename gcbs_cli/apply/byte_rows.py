"""Rows as bytes: lines of JSONL, records of CSV, rows of .npy, in blocks of bounded size."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.files import FileStamp, changed, one_line, open_unchanged
from gcbs_cli.system.errors import BadInput

BLOCK_BYTES = 1 << 22
_BOM = b"\xef\xbb\xbf"
_NEWLINE, _QUOTE = 10, 34


@dataclass(frozen=True)
class RowBlock:
    """Consecutive rows: row i is `data[bounds[i]:bounds[i + 1]]`, its line end included. bounds: (n + 1,) int64."""

    data: bytes
    bounds: NDArray[np.int64]


class ByteRows:
    """A file as rows of bytes. `prefix` comes before the rows and stays there: a header, a byte order mark."""

    def __init__(self, stamp: FileStamp) -> None:
        self.stamp = stamp
        self.prefix = b""

    def blocks(self) -> Iterator[RowBlock]:
        """All rows in blocks. Raises BadInput for a damaged file and for one that changes meanwhile."""
        raise NotImplementedError


class LineRows(ByteRows):
    """JSONL, or CSV by RFC 4180: there, a line end inside quotes belongs to the record.

    A last line without an end gets one, for it may be followed by another. Empty lines are no rows: at the end they are
    dropped, before that they are refused.
    """

    def __init__(self, stamp: FileStamp, *, quoted: bool, header: bool) -> None:
        super().__init__(stamp)
        self._quoted = quoted
        self.prefix = self._read_prefix(header)

    def blocks(self) -> Iterator[RowBlock]:
        rows, empty = 0, False
        for record_block in self._records(len(self.prefix)):
            data, bounds = record_block.data, record_block.bounds
            lengths = np.diff(bounds)
            blank = np.flatnonzero(lengths <= 2)
            blank = blank[[not data[bounds[i] : bounds[i + 1]].strip() for i in blank]] if len(blank) else blank
            kept = len(lengths)
            if len(blank):
                kept = int(blank[0])
                if not np.array_equal(blank, np.arange(kept, len(lengths))):
                    raise self._empty_line(rows + kept + 1)
            if empty and kept:
                raise self._empty_line(rows + 1)
            empty = empty or kept < len(lengths)
            rows += kept
            if kept:
                yield RowBlock(data, bounds[: kept + 1])

    def _empty_line(self, row: int) -> BadInput:
        return BadInput(f"{self.stamp.shown}: an empty line where row {row - 1} should be; remove it")

    def _read_prefix(self, header: bool) -> bytes:
        with open_unchanged(self.stamp) as descriptor:
            mark = _BOM if os.pread(descriptor, len(_BOM), 0) == _BOM else b""
        if not header:
            return mark
        for block in self._records(0):
            return block.data[: block.bounds[1]]
        raise BadInput(f"{self.stamp.shown}: has no header line")

    def _records(self, offset: int) -> Iterator[RowBlock]:
        rest = b""
        with open_unchanged(self.stamp) as descriptor:
            while data := os.pread(descriptor, max(BLOCK_BYTES, len(rest)), offset):
                offset += len(data)
                rest += data
                ends = self._ends(rest)
                if len(ends):
                    whole = int(ends[-1])
                    yield RowBlock(rest[:whole], np.concatenate([[0], ends]))
                    rest = rest[whole:]
        if rest:
            ends = self._ends(rest + b"\n")
            if not len(ends) or ends[-1] != len(rest) + 1:
                raise BadInput(f"{self.stamp.shown}: ends inside quotes; a quote is missing, or doubled wrongly")
            line_end = b"\r\n" if self.prefix.endswith(b"\r\n") else b"\n"
            yield RowBlock(rest + line_end, np.array([0, len(rest) + len(line_end)], np.int64))

    def _ends(self, data: bytes) -> NDArray[np.int64]:
        """One past each line end that ends a record; `data` starts with a record."""
        values = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(values == _NEWLINE)
        if self._quoted:
            quotes = np.flatnonzero(values == _QUOTE)
            ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
        return ends.astype(np.int64) + 1


class NpyRows(ByteRows):
    """A .npy array of any shape and type of fixed size, along its first axis."""

    def __init__(self, stamp: FileStamp) -> None:
        super().__init__(stamp)
        try:
            array: Any = np.load(stamp.path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise BadInput(f"{stamp.shown}: no .npy file that can be reordered: {one_line(error)}") from None
        if array.ndim == 0 or array.size == 0 or (array.ndim > 1 and not array.flags.c_contiguous):
            raise BadInput(f"{stamp.shown}: expected rows in C order, got shape {array.shape}; write it with np.save")
        self.rows, self.row_bytes = int(array.shape[0]), int(array.nbytes // array.shape[0])
        self.layout = (array.dtype.str, array.shape[1:])
        if stamp.size != array.offset + array.nbytes:
            raise BadInput(f"{stamp.shown}: longer than its header says; write it again")
        with open_unchanged(stamp) as descriptor:
            self.prefix = os.pread(descriptor, array.offset, 0)

    def blocks(self) -> Iterator[RowBlock]:
        at_once = max(1, BLOCK_BYTES // self.row_bytes)
        with open_unchanged(self.stamp) as descriptor:
            for start in range(0, self.rows, at_once):
                count = min(at_once, self.rows - start)
                data = os.pread(descriptor, count * self.row_bytes, len(self.prefix) + start * self.row_bytes)
                if len(data) != count * self.row_bytes:
                    raise changed(self.stamp)
                yield RowBlock(data, np.arange(count + 1, dtype=np.int64) * self.row_bytes)
