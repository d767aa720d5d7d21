"""Files whose rows are bytes (lines of JSONL, records of CSV, samples of .tar): one pass finds where each lies."""

import json
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from typing import BinaryIO, Self

import numpy as np

from gcbs_cli.data.files import FileStamp, one_line, open_unchanged, read_bytes
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput

_OBJECT_BYTES = 100  # what Python takes for a row in memory beside its bytes
_PIECE_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"


class ByteRows:
    """All rows of some files. header: the first record of CSV is none. Raises BadInput for a damaged file."""

    def __init__(self, stamps: list[FileStamp], *, header: bool) -> None:
        self._stamps = stamps
        suffix = stamps[0].suffix
        is_table = suffix in (".csv", ".tsv")
        self._line_end, self._end = (b"", bytes(2 * tarfile.BLOCKSIZE)) if suffix == ".tar" else (b"\n", b"")
        self._prefixes = []
        spans = []
        for stamp in stamps:
            with open_unchanged(stamp) as file:
                found = _samples(stamp, file) if suffix == ".tar" else _lines(stamp, file, quoted=is_table)
                own = np.fromiter(found, np.dtype((np.int64, 2)))[int(header and is_table) :]
                # What comes before the rows stays in its place: a header, a byte order mark.
                self._prefixes.append(read_bytes(file, own[0, 0] if len(own) else stamp.size, 0))
            spans.append(own)
        self.layouts = [prefix.split() if is_table else None for prefix in self._prefixes]
        self.counts = list(map(len, spans))
        # (N, 3): where a row begins and ends, and in which file
        self._table = np.column_stack([np.concatenate(spans), np.repeat(np.arange(len(spans)), self.counts)])
        # (N,) the memory that each row takes
        self.row_bytes = self._table[:, 1] - self._table[:, 0] + _OBJECT_BYTES

    def read(self, rows: Ints) -> list[bytes]:
        """Read rows, every file from front to back. Raises BadInput when one has changed."""
        order = np.argsort(rows)
        spans = zip(order, *self._table[rows[order]].T, strict=True)
        found = [b""] * len(rows)
        for number, part in groupby(spans, itemgetter(3)):
            with open_unchanged(self._stamps[number]) as file:
                for place, start, stop, _ in part:
                    row = read_bytes(file, stop - start, start)
                    # What was the last line may be followed by another.
                    found[place] = row if row.endswith(self._line_end) else row + self._line_end
        return found

    @contextmanager
    def writer(self, number: int, file: BinaryIO) -> Iterator[Callable[[list[bytes]], object]]:
        """Give what writes rows to a new file, in place of the one of this number."""
        file.write(self._prefixes[number])
        yield file.writelines
        file.write(self._end)


def _lines(stamp: FileStamp, file: BinaryIO, *, quoted: bool) -> Iterator[tuple[int, int]]:
    """Yield where each line begins and ends but empty ones; quoted: line ends inside quotes are no ends (RFC 4180)."""
    start = position = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
    file.seek(start)
    quotes = 0
    is_filled = False
    blank = b"\r\n" if quoted else None  # what an empty line may hold: in JSONL any white space
    # In pieces: what follows a quote that is left open, or has no line ends at all, is not held in memory.
    for piece in iter(partial(file.readline, _PIECE_BYTES), b""):
        position += len(piece)
        if b"\0" in piece:
            raise BadInput(f"{stamp.shown}: found a NUL, expected text in UTF-8; convert it")
        is_filled = is_filled or bool(piece.strip(blank))
        if quoted:
            quotes += piece.count(b'"')
        if position == stamp.size or (piece.endswith(b"\n") and quotes % 2 == 0):
            if is_filled:
                if not quoted and not piece.endswith(b"\n"):
                    _check_whole(stamp, read_bytes(file, position - start, start))
                yield start, position
            start = position
            is_filled = False
    if quotes % 2:
        raise BadInput(f"{stamp.shown}: ends inside quotes; a quote is missing or wrongly doubled")


def _check_whole(stamp: FileStamp, line: bytes) -> None:
    """Raises BadInput for a last line of JSONL that is cut short, as where its writer still writes."""
    try:
        json.loads(line)
    except ValueError:
        raise BadInput(f"{stamp.shown}: the last line is no whole JSON; write the file to its end") from None


def _samples(stamp: FileStamp, file: BinaryIO) -> Iterable[tuple[int, int]]:
    """Return where webdataset's samples begin and end: members in a row of one name up to its first dot."""
    try:
        archive = tarfile.TarFile(fileobj=file, tarinfo=_Header)
        members = [member for member in archive.getmembers() if not member.isdir()]
        for member in members:
            if not member.isreg():  # it would be parted from what it points to
                raise tarfile.ReadError(f"{member.name} is a link or device; write files and folders alone")
        file.seek(archive.offset)
        if any(piece.strip(b"\0") for piece in iter(partial(file.read, _PIECE_BYTES), b"")):
            raise tarfile.ReadError("data after its end: a damaged header, or another archive")
    except tarfile.TarError as error:
        raise BadInput(f"{stamp.shown}: not a tar archive, or damaged: {one_line(error)}") from None
    samples = groupby(members, lambda member: re.sub("[.][^/]*$", "", member.name))
    starts = [next(sample).offset for _, sample in samples]
    return pairwise([*starts, archive.offset])


class _Header(tarfile.TarInfo):
    """A header that is not followed by a name or attributes, read whole, as long as a stranger's archive may claim."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.size > _PIECE_BYTES and not header.isreg():
            raise tarfile.ReadError(f"a name or attributes of {header.size:,} bytes")
        return header
