"""Files that are read: checked when opened, listed in the order of their rows, refused when they change meanwhile."""

import glob
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from gcbs_cli.system.arrays import Array
from gcbs_cli.system.errors import BadInput, printable, without_secrets

STATE = "state.json"
"""The file in which a dataset of `save_to_disk` names its files, in the order of its rows."""


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

    def label(self, column: str | None) -> str:
        """The name as messages show it, and the column or tensor of the file if there is one: "pairs.parquet:x"."""
        return self.shown if column is None else f"{self.shown}:{shown(column)}"


def shown(path: str) -> str:
    """Return a path, address or column name fit for a one-line message: no secrets, control characters escaped."""
    path = without_secrets(path)
    return path if path.isprintable() and path else ascii(path)


def suffix_of(name: str) -> str:
    """Return the suffix of a path or address in lower case."""
    return os.path.splitext(without_secrets(name).removesuffix("?…"))[1].lower()


def one_line(text: object) -> str:
    """Return what another library says, an error or the name of a type, as one short line."""
    longest = 160
    line = printable(" ".join(str(text).split()) or type(text).__name__)
    return line if len(line) <= longest else line[:longest] + "..."


def stamp_file(path: str, name: str | None = None, *, empty: bool = False) -> FileStamp:
    """Check that `path` is a regular, readable file, not empty unless that is fine, and return its stamp.

    name: the address of which it is a copy. Raises BadInput: missing, a directory, a pipe or device, unreadable, empty.
    """
    name = name or path
    with _opened(path, name) as file:
        stamp = _stamp(path, name, file)
    if not os.path.isfile(path):
        raise BadInput(f"{stamp.shown}: found a pipe or device, expected a regular file; give the path of a file")
    if stamp.size == 0 and not empty:
        raise BadInput(f"{stamp.shown}: found an empty file (0 bytes), expected data; write it again")
    return stamp


def unreadable(name: str, error: OSError | ValueError) -> BadInput:
    """Return the BadInput for a file or folder that the system cannot open."""
    if isinstance(error, FileNotFoundError):
        return BadInput(f"{shown(name)}: file not found")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
    return BadInput(f"{shown(name)}: cannot be opened ({reason}), expected a file; check the path")


@contextmanager
def open_unchanged(stamp: FileStamp) -> Iterator[BinaryIO]:
    """Open the stamped file for reading.

    Raises BadInput when the file cannot be read, and when it differs from its stamp, before the body or after it.
    """
    with _opened(stamp.path, stamp.name) as file:
        _refuse_changed(stamp, file)
        try:
            yield file
        except OSError as error:
            raise unreadable(stamp.name, error) from None
        except Exception:
            _refuse_changed(stamp, file)  # a better reason than what the change led to
            raise
        _refuse_changed(stamp, file)


def open_file(path: str, *, empty: bool = False) -> AbstractContextManager[BinaryIO]:
    """Open a file as `stamp_file` checks it. Raises BadInput, also for one that changes while it is read."""
    return open_unchanged(stamp_file(path, empty=empty))


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
        raise BadInput(
            f"{stamp.shown}: changed or vanished during the work, expected a finished file; run again when it is"
            " complete"
        )


def _opened(path: str, name: str) -> BinaryIO:
    try:
        # Without O_NONBLOCK a pipe would be waited for.
        return open(path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))
    except (OSError, ValueError) as error:
        raise unreadable(name, error) from None


def list_files(path: str, *, below: bool = False) -> list[str]:
    """Return the files of a directory or glob pattern in the order of their rows; none where the path names one file.

    below: those of the directories in it too, linked ones as well. Raises BadInput where there are none, and where a
    directory cannot be read or is reached twice.
    """
    if not os.path.isdir(path):
        if os.path.lexists(path) or not glob.has_magic(path):
            return []
        files = glob.glob(path, recursive=True)
        if not files:
            raise BadInput(
                f"{shown(path)}: found no file that matches, expected files of embeddings; check the pattern"
            )
        return sorted(files, key=natural_key)
    files = []
    places: set[str] = set()
    for folder, folders, names in os.walk(path, onerror=_refuse_folder, followlinks=True):
        place = os.path.realpath(folder)
        if place in places:  # a link to a folder above it would have no end
            raise BadInput(f"{shown(folder)}: found a link to a folder that is read already; remove the link")
        places.add(place)
        folders[:] = [name for name in folders if below and not _is_hidden(name)]
        files += [os.path.join(folder, name) for name in names]
    return order_files(path, {file: file for file in files})


def order_files(folder: str, files: Mapping[str, str]) -> list[str]:
    """Return the names of a folder's files in the order of their rows: the natural one, without hidden files.

    For a dataset of `save_to_disk` those that its state names, in that order. files: names, and where each lies.
    Raises BadInput where there are none.
    """
    if os.path.join(folder, "dataset_dict.json") in files:
        raise BadInput(f"{shown(folder)}: found a dataset of splits, expected one split; give the folder of that one")
    state = os.path.join(folder, STATE)
    if state in files:
        return [os.path.join(folder, name) for name in _saved_order(files[state])]
    visible = [name for name in files if not any(map(_is_hidden, name.removeprefix(folder).split("/")))]
    if not visible:
        raise BadInput(f"{shown(folder)}: found an empty directory, expected files of embeddings; check the path")
    return sorted(visible, key=natural_key)


def natural_key(path: str) -> tuple[list[tuple[str, int]], str]:
    """Return a sort key that takes the digits in a path as numbers: part-2 before part-10."""
    return [(text, int(digits or 0)) for text, digits in re.findall("([^0-9]*)([0-9]*)", path)], path


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _refuse_folder(error: OSError) -> None:
    raise unreadable(error.filename, error)


def _saved_order(state: str) -> list[str]:
    """Return the names of the files that `datasets.Dataset.save_to_disk` wrote, in the order of its state."""
    try:
        with open_file(state) as file:
            names = [os.path.basename(entry["filename"]) for entry in json.load(file)["_data_files"]]
        if not names:
            raise ValueError("none")
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise BadInput(
            f"{shown(state)}: found no names of files ({one_line(error)}), expected a dataset of save_to_disk; save it"
            " again"
        ) from None
    return names
