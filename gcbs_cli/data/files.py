"""Files listed in the order of their rows, checked when opened, and found out when they change while they are read."""

import glob
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from gcbs_cli.system.arrays import Array
from gcbs_cli.system.errors import BadInput, printable

COPIES: dict[str, str] = {}
"""Folders of fetched files, each with the address that it stands for."""
_STATE = "state.json"


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


def one_line(found: object) -> str:
    """Return what another library says, an error or the name of a type, as one short line."""
    longest = 160
    text = " ".join(str(found).split()) or type(found).__name__
    text = printable(text)
    return text if len(text) <= longest else text[:longest] + "..."


def stamp_file(path: str, *, empty: bool = False) -> FileStamp:
    """Check that `path` is a regular, readable file, not empty unless that is fine, and return its stamp.

    Raises BadInput: missing, a directory, a pipe or device, unreadable, empty.
    """
    if os.path.isdir(path):
        raise BadInput(f"{shown(path)}: found a directory, expected a regular file; give the path of a file")
    with _opened(path) as file:
        status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise BadInput(f"{shown(path)}: found a pipe or device, expected a regular file; give the path of a file")
    if status.st_size == 0 and not empty:
        raise BadInput(f"{shown(path)}: found an empty file (0 bytes), expected data; write it again")
    return _stamp(path, status)


def unreadable(path: str, error: OSError | ValueError) -> BadInput:
    """Return the BadInput for a path that the system cannot open."""
    if isinstance(error, FileNotFoundError):
        return BadInput(f"{shown(path)}: file not found")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
    return BadInput(f"{shown(path)}: cannot be opened ({reason}), expected a file; check the path")


@contextmanager
def open_unchanged(stamp: FileStamp) -> Iterator[BinaryIO]:
    """Open the stamped file for reading.

    Raises BadInput when the file cannot be read, and when it differs from its stamp, before the body or after it.
    """
    with _opened(stamp.path) as file:
        try:
            check_unchanged(stamp, file)
            yield file
            check_unchanged(stamp, file)
        except EOFError:
            raise _changed(stamp) from None
        except OSError as error:
            raise unreadable(stamp.path, error) from None


def open_file(path: str, *, empty: bool = False) -> AbstractContextManager[BinaryIO]:
    """Open a file as `stamp_file` checks it. Raises BadInput, also for one that changes while it is read."""
    return open_unchanged(stamp_file(path, empty=empty))


def check_unchanged(stamp: FileStamp, file: BinaryIO) -> None:
    """Raise BadInput when the open file differs in size, time or identity from its stamp."""
    if _stamp(stamp.path, os.fstat(file.fileno())) != stamp:
        raise _changed(stamp)


def check_still_the_same(stamp: FileStamp) -> None:
    """Raise BadInput when the file that lies at the stamp's path now is another, or was written to since."""
    try:
        with open_unchanged(stamp):
            pass
    except BadInput:
        raise _changed(stamp) from None


def read_bytes(file: BinaryIO, count: int, offset: int) -> bytes:
    """Return exactly `count` bytes from `offset`. Raises EOFError when the file has become shorter."""
    file.seek(offset)
    data = file.read(count)
    if len(data) < count:
        raise EOFError
    return data


def read_into(file: BinaryIO, array: Array, offset: int) -> None:
    """Fill a C-contiguous array with the file's bytes from `offset`. Raises EOFError when it has become shorter."""
    file.seek(offset)
    if file.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:  # type: ignore[attr-defined]
        raise EOFError


def _changed(stamp: FileStamp) -> BadInput:
    return BadInput(
        f"{stamp.shown}: changed or vanished during the work, expected a finished file; run again when it is complete"
    )


def _opened(path: str) -> BinaryIO:
    try:
        # Without O_NONBLOCK a pipe would be waited for.
        return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def _stamp(path: str, status: os.stat_result) -> FileStamp:
    return FileStamp(path, status.st_size, status.st_mtime_ns, status.st_ino)


def list_files(path: str, *, below: bool = False) -> list[str]:
    """Return the files of a directory or glob pattern in natural order; none where the path names one file.

    Hidden ones (a name that starts with . or _) are left out. below: those of the directories in it too, and of a
    dataset of `save_to_disk` those that its state names, in that order. Raises BadInput where there are none.
    """
    if not os.path.isdir(path):
        return list_pattern(path) if glob.has_magic(path) and not os.path.lexists(path) else []
    inside = set(os.listdir(path)) if below and os.access(path, os.R_OK) else set()
    if "dataset_dict.json" in inside:
        raise BadInput(f"{shown(path)}: found a dataset of splits, expected one split; give the folder of that one")
    if {_STATE, "dataset_info.json"} <= inside:
        return _saved_dataset(path)
    files: list[str] = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if below and not name.startswith((".", "_"))]
        files += [os.path.join(folder, name) for name in names if not name.startswith((".", "_"))]
    if not files:
        raise BadInput(f"{shown(path)}: found an empty directory, expected files of embeddings; check the path")
    return sorted(files, key=natural_key)


def list_pattern(pattern: str) -> list[str]:
    """Return the files that a glob pattern matches in natural order, without hidden ones."""
    files = glob.glob(pattern, recursive=True)
    if not files:
        raise BadInput(f"{shown(pattern)}: found no file that matches, expected files of embeddings; check the pattern")
    return sorted(files, key=natural_key)


def natural_key(path: str) -> tuple[list[tuple[str, int]], str]:
    """Return a sort key that takes the digits in a path as numbers: part-2 before part-10."""
    return [(text, int(digits or 0)) for text, digits in re.findall("([^0-9]*)([0-9]*)", path)], path


def _saved_dataset(path: str) -> list[str]:
    """Return the files that `datasets.Dataset.save_to_disk` wrote, in the order that its state names."""
    try:
        with open_file(os.path.join(path, _STATE)) as file:
            names = [os.path.basename(entry["filename"]) for entry in json.load(file)["_data_files"]]
        if not names:
            raise ValueError("none")
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise BadInput(
            f"{shown(path)}: found no names of files in {_STATE} ({one_line(error)}), expected a dataset of"
            " save_to_disk; save it again"
        ) from None
    return [os.path.join(path, name) for name in names]
