"""Files that are read: checked when opened, listed in the order of their rows, refused when they change meanwhile."""

import glob
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from gcbs_cli.system.arrays import Array
from gcbs_cli.system.errors import BadInput, printable, without_secrets


@dataclass(frozen=True)
class FileStamp:
    """A file, and what tells whether it is still the one that was opened."""

    path: str
    name: str
    """The path, or the address of which the file is a copy."""
    size: int
    modified_ns: int
    inode: int

    @property
    def shown(self) -> str:
        """The name as messages show it."""
        return shown(self.name)

    @property
    def suffix(self) -> str:
        """What names the format, in lower case: ".npy"."""
        return suffix_of(self.name)


def suffix_of(path: str) -> str:
    """Return what names the format of a file or of what lies at an address, in lower case: ".npy"."""
    return os.path.splitext(without_secrets(path).removesuffix("?…"))[1].lower()


def shown(path: str) -> str:
    """Return a path, address or column name fit for a one-line message: no secrets, control characters escaped."""
    path = without_secrets(path)
    return path if path.isprintable() and path else ascii(path)


def label(name: str, column: str | None) -> str:
    """Return a name as messages show it, and the column or tensor if there is one: "pairs.parquet:x"."""
    return shown(name) if column is None else f"{shown(name)}:{shown(column)}"


def one_line(text: object) -> str:
    """Return what another library says, an error or the name of a type, as one short line."""
    longest = 160
    line = printable(" ".join(str(text).split()) or type(text).__name__)
    return line if len(line) <= longest else line[:longest] + "..."


def stamp_file(path: str, name: str | None = None) -> FileStamp:
    """Check that `path` is a regular, readable file, and return its stamp.

    name: the address of which it is a copy. Raises BadInput: missing, a directory, a pipe or device, unreadable.
    """
    name = name or path
    with _opened(path, name) as file:
        stamp = _stamp(path, name, file)
    if not os.path.isfile(path):
        raise BadInput(f"{stamp.shown}: found a pipe or device, expected a regular file; give the path of a file")
    return stamp


def unreadable(name: str, error: OSError | ValueError) -> BadInput:
    """Return the BadInput for a file or folder that the system cannot open."""
    if isinstance(error, FileNotFoundError):
        reason = "is an address that is not fetched; name a file on this machine" if "://" in name else "file not found"
        return BadInput(f"{shown(name)}: {reason}")
    reason = getattr(error, "strerror", None) or one_line(error)
    return BadInput(f"{shown(name)}: cannot be opened ({reason}), expected a file; check the path")


@contextmanager
def open_unchanged(stamp: FileStamp) -> Iterator[BinaryIO]:
    """Open the stamped file for reading.

    Raises BadInput when the file cannot be read, and when it differs from its stamp after the body, whatever that
    change led to.
    """
    with _opened(stamp.path, stamp.name) as file:
        try:
            yield file
        except OSError as error:
            raise unreadable(stamp.name, error) from None
        except Exception:
            _refuse_changed(stamp, file)  # a better reason than what the change led to
            raise
        _refuse_changed(stamp, file)


def open_file(path: str) -> AbstractContextManager[BinaryIO]:
    """Open a file as `stamp_file` checks it. Raises BadInput, also for one that changes while it is read."""
    return open_unchanged(stamp_file(path))


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


def _stamp(path: str, name: str, file: BinaryIO) -> FileStamp:
    status = os.fstat(file.fileno())
    return FileStamp(path, name, status.st_size, status.st_mtime_ns, status.st_ino)


def _refuse_changed(stamp: FileStamp, file: BinaryIO) -> None:
    if _stamp(stamp.path, stamp.name, file) != stamp:
        raise BadInput(f"{stamp.shown}: changed during the work, expected a finished file; run again when it is whole")


def _opened(path: str, name: str) -> BinaryIO:
    try:
        # Without O_NONBLOCK a pipe would be waited for.
        return open(path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))
    except (OSError, ValueError) as error:
        raise unreadable(name, error) from None


def list_files(path: str) -> list[str]:
    """Return the files of a directory or glob pattern in the order of their rows, or the one file of another path.

    Those of the directories in a directory too, linked ones as well. Raises BadInput where there are none, and where a
    directory cannot be read or is reached twice.
    """
    files = []
    if os.path.isdir(path):
        places: set[str] = set()
        for folder, folders, names in os.walk(path, onerror=_refuse_folder, followlinks=True):
            place = os.path.realpath(folder)
            if place in places:  # a link to a folder above it would have no end
                raise BadInput(f"{shown(folder)}: found a link to a folder that is read already; remove the link")
            places.add(place)
            folders[:] = [name for name in folders if not is_hidden(name)]
            files += [os.path.join(folder, name) for name in names if not is_hidden(name)]
    elif os.path.lexists(path) or not glob.has_magic(path):
        return [path]
    else:
        files = glob.glob(path, recursive=True)
    return in_order(path, files)


def in_order(path: str, names: Iterable[str]) -> list[str]:
    """Return the names of the files of a folder or pattern in the order of their rows, the natural one.

    Raises BadInput where there are none.
    """
    ordered = sorted(names, key=natural_key)
    if not ordered:
        raise BadInput(f"{shown(path)}: found no files, expected some of embeddings; check the folder or pattern")
    return ordered


def natural_key(path: str) -> tuple[list[tuple[str, int]], str]:
    """Return a sort key that takes the digits in a path as numbers: part-2 before part-10."""
    return [(text, int(digits or 0)) for text, digits in re.findall("([^0-9]*)([0-9]*)", path)], path


def is_hidden(path: str) -> bool:
    """Return whether a part of the path begins with a dot or an underscore: no data, by the custom of such folders."""
    return re.search("(^|/)[._]", path) is not None


def _refuse_folder(error: OSError) -> None:
    raise unreadable(error.filename, error)
