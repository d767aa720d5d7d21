"""Files whose rows are bytes: lines of JSONL, records of CSV, rows of .npy, samples of .tar.

One pass finds where each row lies; then rows are read by their offsets.
"""

import tarfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any, BinaryIO

import numpy as np

from gcbs_cli.data.files import FileStamp, one_line, open_unchanged, read_bytes
from gcbs_cli.data.npy import read_header
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput

_OBJECT_BYTES = 100
"""What Python takes for a row in memory beside its bytes."""
Write = Callable[[Any], object]
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class ByteFile:
    """A file whose row i is the bytes from starts[i] to stops[i]."""

    stamp: FileStamp
    starts: Ints
    stops: Ints
    layout: Any = None
    """What the files of one data set share: columns, or type and shape of a row."""
    prefix: bytes = b""
    """Comes before the rows and stays there: a header, a byte order mark."""
    suffix: bytes = b""
    line_end: bytes = b""
    """Is added to a row without one: what was the last line may be followed by another."""

    @property
    def row_bytes(self) -> Ints:
        """(rows,) the memory that each row takes."""
        return self.stops - self.starts + _OBJECT_BYTES

    def read(self, rows: Ints) -> list[bytes]:
        """Read rows, in rising order. Raises BadInput when the file has changed."""
        with open_unchanged(self.stamp) as file:
            spans = zip(self.starts[rows], self.stops[rows], strict=True)
            return [self._ended(read_bytes(file, stop - start, start)) for start, stop in spans]

    def _ended(self, row: bytes) -> bytes:
        return row if row.endswith(self.line_end[-1:]) else row + self.line_end

    @staticmethod
    def joined(parts: list[list[bytes]], order: Ints) -> list[bytes]:
        """The rows of several files in this order."""
        rows = list(chain.from_iterable(parts))
        return [rows[place] for place in order.tolist()]

    @contextmanager
    def writer(self, file: BinaryIO) -> Iterator[Write]:
        """Give what writes rows to a new file between what stays in place of this one."""
        file.write(self.prefix)
        yield file.writelines
        file.write(self.suffix)


def open_rows(stamp: FileStamp, kind: str, *, header: bool) -> ByteFile:
    """Find the rows of a file; header: the first record of CSV is none. Raises BadInput when the file is damaged."""
    if kind == "npy":
        return _open_npy(stamp)
    if kind == "tar":
        return _open_tar(stamp)
    return _open_lines(stamp, quoted=kind == "csv", header=header and kind == "csv")


def _open_lines(stamp: FileStamp, *, quoted: bool, header: bool) -> ByteFile:
    """Open JSONL, or CSV by RFC 4180: there, a line end inside quotes belongs to the record.

    Empty lines are no rows.
    """
    with open_unchanged(stamp) as file:
        start = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
        file.seek(start)
        ends, filled = array("q", [start]), bytearray()
        position = start
        quotes = 0
        for line in file:
            position += len(line)
            if quoted:
                quotes += line.count(b'"')
            if quotes % 2 == 0:
                ends.append(position)
                filled.append(line not in (b"\n", b"\r\n"))
        if quotes % 2:
            raise BadInput(f"{stamp.shown}: ends inside quotes; a quote is missing or wrongly doubled")
        if header and filled:
            start = ends[1]
            filled[0] = False
        prefix = read_bytes(file, start, 0)
    bounds, mask = np.array(ends), np.array(filled, bool)
    columns = prefix.split() if header else None
    line_end = b"\r\n" if prefix.endswith(b"\r\n") else b"\n"
    return ByteFile(stamp, bounds[:-1][mask], bounds[1:][mask], columns, prefix, line_end=line_end)


def _open_npy(stamp: FileStamp) -> ByteFile:
    """Open an array of any shape and type of fixed size, along its first axis."""
    with open_unchanged(stamp) as file:
        shape, dtype, offset = read_header(stamp, file)
        if not shape or 0 in (dtype.itemsize, *shape):
            raise BadInput(f"{stamp.shown}: found an array of shape {shape}, expected rows of numbers or texts")
        prefix = read_bytes(file, offset, 0)
    size = (stamp.size - offset) // shape[0]
    starts = offset + size * np.arange(shape[0])
    return ByteFile(stamp, starts, starts + size, (dtype.str, shape[1:]), prefix)


def _open_tar(stamp: FileStamp) -> ByteFile:
    """Open webdataset's samples: consecutive members whose names are the same up to their first dot."""
    try:
        with open_unchanged(stamp) as file:
            members = tarfile.TarFile(fileobj=file).getmembers()
    except tarfile.TarError as error:
        raise BadInput(f"{stamp.shown}: not a tar archive, or damaged: {one_line(error)}") from None
    if not members:
        raise BadInput(f"{stamp.shown}: found an empty archive, expected samples")
    last = members[-1]
    bounds = [next(sample).offset for _, sample in groupby(members, _sample_name)]
    bounds.append(last.offset_data + -(-last.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)
    end = bytes(2 * tarfile.BLOCKSIZE)
    return ByteFile(stamp, np.array(bounds[:-1]), np.array(bounds[1:]), suffix=end)


def _sample_name(member: tarfile.TarInfo) -> tuple[str, str]:
    folder, _, name = member.name.rpartition("/")
    return folder, name.split(".")[0]
