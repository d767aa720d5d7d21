"""The one place that opens outputs: checked before the work, then written whole or not at all."""

import glob
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gcbs_cli.data.files import shown
from gcbs_cli.system.errors import WRITTEN, BadInput, GcbsError

TEMPORARY_SUFFIX = ".gcbs-tmp"
MANIFEST_END = ".manifest.json"
_NAME_BYTES = 180
"""A file name has at most 255 bytes; the target's is cut so that the random part and the suffix still fit."""
_ABANDONED_SECONDS = 86_400.0
PathLike = Path | str | None


def check_outputs(outputs: Iterable[PathLike], inputs: Mapping[object, str], *, force: bool) -> None:
    """Refuse, before any work, an output that cannot be written or that is an input or another output as well.

    outputs: files, or None. inputs: what the command reads, by `identity`. Without `force`, an output that exists is
    refused; with it, only an input or another output is. Raises BadInput.
    """
    uses = {place: f"is read by this command ({shown(name)})" for place, name in inputs.items()}
    for path in [str(path) for path in outputs if path is not None]:
        if path == "-":
            raise BadInput("output -: only plan and mine write to stdout; name a file, or ask for --json")
        if "://" in path:
            raise BadInput(f"{shown(path)}: is an address, to which nothing is written; name a file on this machine")
        place = identity(path)
        if place in uses:
            raise BadInput(f"{shown(path)}: {uses[place]}; name another output")
        uses[place] = f"is an output already ({shown(path)})"
        _check_place(Path(path), force)


def identity(path: str) -> object:
    """Return what is the same for all names of a file: device and inode, or the path where there is no file."""
    try:
        status = os.stat(0 if path == "-" else path)
    except OSError:
        return os.path.realpath(path)
    except ValueError:  # a NUL in the name
        return path
    return status.st_dev, status.st_ino


def _check_place(path: Path, force: bool) -> None:
    name, folder = shown(str(path)), path.parent
    if "\0" in str(path):
        raise BadInput(f"output {name}: a file name cannot hold a NUL character")
    try:
        if path.exists() and not path.is_file():  # renaming over /dev/null as root would replace the device itself
            raise BadInput(f"{name}: is a folder, pipe or device; name a file")
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise BadInput(f"{name}: {folder} does not exist, or is no writable folder; create it or name another")
        if not force and os.path.lexists(path):
            raise BadInput(f"{name}: exists; use --force to replace it")
    except OSError as error:
        raise BadInput(_advice(path, error)) from error


def write(path: Path | str, text: str, *, force: bool = False) -> None:
    """Write a text as `file` does; it may name files whose names are not UTF-8."""
    with file(Path(path), force=force) as output:
        output.write(text.encode(errors="replace"))


@contextmanager
def file(path: Path, *, force: bool = False) -> Iterator[BinaryIO]:
    """Open the file to fill; it appears at `path` whole when the block ends, or not at all.

    With `force`, an older file goes. Raises BadInput where one has appeared meanwhile otherwise, and GcbsError when the
    disk, the folder or the file system does not take the file. Whatever goes wrong, an interrupt included, no temporary
    file is left.
    """
    temporary = path.parent / f"{_hidden_prefix(path)}{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
    with explained(path):
        try:
            with open(temporary, "xb") as output:
                yield output
                output.flush()
                os.fsync(output.fileno())
            _publish(temporary, path, force)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        in_place(path)


def _publish(temporary: Path, path: Path, force: bool) -> None:
    """Give a file its name; without `force`, only if nothing has this name by now."""
    if force:
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)
    except OSError:  # there is such a file by now, or this file system has no links
        _check_place(path, force)
        os.replace(temporary, path)
    else:
        temporary.unlink()


@contextmanager
def folder(path: Path) -> Iterator[Path]:
    """Give an empty folder to fill; it appears at `path`, which is free, when the block ends, or not at all."""
    with temporary_folder(path) as temporary:
        # One with the usual permissions: the temporary folder is its owner's alone.
        place = temporary / "folder"
        place.mkdir()
        yield place
        with explained(path):
            place.rename(path)
        in_place(path)


@contextmanager
def temporary_folder(beside: Path) -> Iterator[Path]:
    """Give a private folder for this block alone, hidden beside a path. Raises GcbsError when it cannot be made."""
    with explained(beside):
        prefix = _hidden_prefix(beside)
        folder = tempfile.TemporaryDirectory(TEMPORARY_SUFFIX, prefix, beside.parent, ignore_cleanup_errors=True)
    with folder as path:
        yield Path(path)


@contextmanager
def explained(target: object) -> Iterator[None]:
    """Turn an error of the system while `target` is written into a GcbsError: its name, the reason and what to do."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise GcbsError(_advice(target, error)) from error


def in_place(path: Path) -> None:
    """Remember that an output was renamed to `path`, and have that survive a power cut, where the file system can."""
    if TEMPORARY_SUFFIX not in str(path) and not path.name.endswith(MANIFEST_END):
        WRITTEN.append(shown(str(path)))
    with suppress(OSError):
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _advice(target: object, error: OSError) -> str:
    return f"cannot write {shown(str(target))}: {error.strerror or error}; write to another folder or disk"


def _hidden_prefix(path: Path) -> str:
    """Return how temporary names beside `path` begin; those that killed runs left a day ago are removed."""
    prefix = "." + os.fsdecode(os.fsencode(path.name)[:_NAME_BYTES]) + "."
    with suppress(OSError):
        for left in path.parent.glob(f"{glob.escape(prefix)}*{TEMPORARY_SUFFIX}"):
            if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(left) if left.is_dir() else left.unlink()
    return prefix
