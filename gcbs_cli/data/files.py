"""Files read with pread: checked when opened, and found out when they change while they are read."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.system.errors import BadInput, printable

COPIES: dict[str, str] = {}
"""Folders of fetched files, each with the address that it stands for."""


@dataclass(frozen=True)
class FileStamp:
    """What tells whether a file is still the one that was opened."""

    path: str
    size: int
    modified_ns: int
    inode: int

    @property
    def shown(self) -> str:
        """The path as messages show it."""
        return shown(self.path)

    def label(self, column: str | None) -> str:
        """The path as messages show it, and the column or tensor of the file if there is one: "pairs.parquet:x"."""
        return self.shown if column is None else f"{self.shown}:{shown(column)}"


def place(path: str) -> str:
    """Return where a file lies: its path, or the address of which it is a copy."""
    for folder, address in COPIES.items():
        path = path.replace(folder, address)
    return path


def shown(path: str) -> str:
    """Return a path or column name fit for a one-line message: control characters are escaped."""
    path = place(path)
    return path if path.isprintable() and path else ascii(path)


def one_line(error: BaseException) -> str:
    """Return another library's error message as one short line."""
    longest = 160
    text = " ".join(str(error).split()) or type(error).__name__
    text = printable(text)
    return text if len(text) <= longest else text[:longest] + "..."


def stamp_file(path: str, *, empty: bool = False) -> FileStamp:
    """Check that `path` is a regular, readable file, not empty unless that is fine, and return its stamp.

    Raises BadInput: missing, a directory, a pipe or device, unreadable, empty.
    """
    with _opened(path) as descriptor:
        status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a pipe or device"
        raise BadInput(f"{shown(path)}: found {kind}, expected a regular file; give the path of a file")
    if status.st_size == 0 and not empty:
        raise BadInput(f"{shown(path)}: found an empty file (0 bytes), expected data; write it again")
    return _stamp(path, status)


def unreadable(path: str, error: OSError | ValueError) -> BadInput:
    """Return the BadInput for a path that the system cannot open."""
    if isinstance(error, FileNotFoundError):
        return BadInput(f"{shown(path)}: file not found")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
    return BadInput(f"{shown(path)}: found that it cannot be opened ({reason}), expected a file; check the path")


@contextmanager
def open_unchanged(stamp: FileStamp) -> Iterator[int]:
    """Open the stamped file for reading and give its descriptor.

    Raises BadInput when the file differs from its stamp, before the body or after it.
    """
    with _opened(stamp.path) as descriptor:
        check_unchanged(stamp, descriptor)
        yield descriptor
        check_unchanged(stamp, descriptor)


@contextmanager
def open_file(path: str, *, empty: bool = False) -> Iterator[BinaryIO]:
    """Open a file as `stamp_file` checks it. Raises BadInput, also for one that changes while it is read."""
    with open_unchanged(stamp_file(path, empty=empty)) as descriptor, open(descriptor, "rb", closefd=False) as file:
        try:
            yield file
        except OSError as error:
            raise unreadable(path, error) from None


def check_unchanged(stamp: FileStamp, descriptor: int) -> None:
    """Raise BadInput when the open file differs in size, time or identity from its stamp."""
    if _stamp(stamp.path, os.fstat(descriptor)) != stamp:
        raise _changed(stamp)


def check_still_the_same(stamp: FileStamp) -> None:
    """Raise BadInput when the file that lies at the stamp's path now is another, or was written to since."""
    try:
        same = stamp_file(stamp.path) == stamp
    except BadInput:
        same = False
    if not same:
        raise BadInput(
            f"{stamp.shown}: found that it changed or went while the work ran, so the result would belong to data that"
            " is no longer there; run again when it is complete"
        )


def read_bytes(descriptor: int, count: int, offset: int, stamp: FileStamp) -> bytes:
    """Return exactly `count` bytes from `offset`; BadInput when the file has become shorter."""
    buffer = np.empty(count, dtype=np.uint8)
    read_into(descriptor, buffer, offset, stamp)
    return buffer.tobytes()


def read_into(descriptor: int, array: NDArray[Any], offset: int, stamp: FileStamp) -> None:
    """Fill a C-contiguous array with the file's bytes from `offset`; BadInput when the file has become shorter."""
    view = array.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(view):
        try:
            count = os.preadv(descriptor, [view[done:]], offset + done)
        except OSError as error:
            raise unreadable(stamp.path, error) from None
        if count == 0:
            raise _changed(stamp)
        done += count


def _changed(stamp: FileStamp) -> BadInput:
    return BadInput(
        f"{stamp.shown}: found that it changed while it was read, expected a finished file;"
        " run again when it is complete"
    )


@contextmanager
def _opened(path: str) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # or a pipe would be waited for
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _stamp(path: str, status: os.stat_result) -> FileStamp:
    return FileStamp(path, status.st_size, status.st_mtime_ns, status.st_ino)
