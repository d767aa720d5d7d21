"""A permutation as text, one index a line: .txt files, stdin and stdout."""

import select
import sys
from collections.abc import Callable
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.plan_file.messages import wrong_length
from gcbs_cli.plan_file.writing import write_error
from gcbs_cli.system.errors import BadInput, GcbsError

STDIN = "stdin"
_WRITE_LINES = 1 << 17
_READ_BYTES = 1 << 23
# An int64 has 20 characters; blanks around it are allowed, a file without line ends is not read to its end.
_LINE_BYTES = 1024
_SHOWN_BYTES = 40
_LEAST, _LARGEST = -(1 << 63), (1 << 63) - 1


def write(file: BinaryIO, perm: NDArray[np.int64]) -> None:
    """Write one index a line."""
    _write_lines(perm, file.write)


def write_stdout(perm: NDArray[np.int64]) -> None:
    """Write one index a line to stdout; BrokenPipeError passes through, other failures raise GcbsError."""
    if sys.stdout is None:
        raise GcbsError("stdout is closed; write to a file with -o")
    sys.stdout.flush()
    buffer = sys.stdout.buffer
    # Past the buffer: what a failed write leaves in it would fail once more, and loudly, when Python exits.
    raw = getattr(buffer, "raw", buffer)

    def write_all(data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            written = raw.write(rest)
            if written is None:  # a pipe that does not block is full
                select.select([], [raw], [])
            else:
                rest = rest[written:]

    try:
        _write_lines(perm, write_all)
        buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise write_error("to stdout", error) from error


def read_stdin(rows: int | None) -> NDArray[np.int64]:
    """Read one index a line from stdin. Raises BadInput for an empty stdin and for a line that is no index."""
    if sys.stdin is None:
        raise BadInput("stdin is closed; pipe the indices in, or name a file")
    try:
        return read(sys.stdin.buffer, STDIN, rows)
    except OSError as error:
        raise BadInput(f"stdin cannot be read: {error.strerror or error}") from error


def read(file: BinaryIO, source: str, rows: int | None) -> NDArray[np.int64]:
    """Read one index a line; blanks around an index, Windows line ends and empty lines at the end are allowed.

    Raises BadInput for an empty file, more than `rows` lines, and a line that is no index, with its number.
    """
    found = _Indices(source)
    rest = b""
    while data := file.read(_READ_BYTES):
        whole, newline, rest = (rest + data).rpartition(b"\n")
        if newline:
            found.add(whole)
        if len(rest) > _LINE_BYTES:
            raise found.bad_line(found.lines + 1, rest)
        if rows is not None and found.lines > rows:
            raise wrong_length(source, f"more than {rows}", rows)
    if rest:
        found.add(rest)
    return found.joined()


class _Indices:
    """The indices read so far from blocks of whole lines."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines = 0
        self._parts: list[NDArray[np.int64]] = []
        self._ends_blank = False

    def add(self, block: bytes) -> None:
        """Parse the lines of `block`, which comes without its last line end."""
        text = block.rstrip()
        if text:
            if self._ends_blank:
                raise self.bad_line(self.lines + 1, b"")
            self._parts.append(self._parse(text))
            self.lines += len(self._parts[-1])
        if not text or b"\n" in block[len(text) :]:
            self._ends_blank = True

    def joined(self) -> NDArray[np.int64]:
        """All indices; raises BadInput when there are none."""
        if not self._parts:
            hint = "no indices on stdin; did the command before the pipe fail?" if self.source == STDIN else None
            raise BadInput(hint or f"{self.source}: holds no indices")
        return np.concatenate(self._parts)

    def bad_line(self, number: int, line: bytes) -> BadInput:
        """The error for a line that is no index: its number and how it begins."""
        shown = line[:_SHOWN_BYTES].decode("ascii", "backslashreplace").strip()
        found = repr(shown) + (" and more" if len(line) > _SHOWN_BYTES else "") if shown else "a blank line"
        return BadInput(f"{self.source}: line {number}: expected an index, found {found}")

    def _parse(self, text: bytes) -> NDArray[np.int64]:
        lines = text.split(b"\n")
        try:
            if b"_" in text:  # Python reads 1_0 as 10
                raise ValueError
            return np.array(list(map(int, lines)), dtype=np.int64)
        except (ValueError, OverflowError):
            for number, line in enumerate(lines, self.lines + 1):
                if not _is_index(line):
                    raise self.bad_line(number, line) from None
            raise


def _write_lines(perm: NDArray[np.int64], write_bytes: Callable[[bytes], object]) -> None:
    for start in range(0, len(perm), _WRITE_LINES):
        lines = "\n".join(map(str, perm[start : start + _WRITE_LINES].tolist()))
        write_bytes(lines.encode("ascii") + b"\n")


def _is_index(line: bytes) -> bool:
    try:
        return b"_" not in line and _LEAST <= int(line) <= _LARGEST
    except ValueError:
        return False
