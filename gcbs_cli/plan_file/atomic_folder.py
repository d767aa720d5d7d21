"""A folder that appears whole or not at all: filled under a hidden name beside its place, synced, renamed."""

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gcbs_cli.plan_file.atomic import sync_folder, umask, write_error

_SUFFIX = ".gcbs-tmp"
_NAME_BYTES = 180
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def temporary_folder(beside: Path) -> Iterator[Path]:
    """A folder for this block alone, under a hidden name beside a path; those that killed runs left there are removed.

    Raises GcbsError when it cannot be made.
    """
    _clear_abandoned(beside)
    folder = beside.parent / f".{beside.name[:_NAME_BYTES]}.{secrets.token_hex(8)}{_SUFFIX}"
    try:
        folder.mkdir(mode=0o700)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise write_error(folder, error) from error
    try:
        with suppress(OSError):  # file systems without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """The folder to fill; it appears at `path` when the block ends without an exception, in place of an older one.

    Linux exchanges the two in one step. Elsewhere an older folder is moved aside first, and a kill between the two
    renames leaves it under its hidden name. Raises GcbsError when the disk does not take it.
    """
    with temporary_folder(path) as folder:
        try:
            yield folder
            os.chmod(folder, 0o777 & ~umask())
            sync_folder(folder)
            _put_in_place(folder, path)
            sync_folder(path.parent)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise write_error(path, error) from error


def _put_in_place(folder: Path, path: Path) -> None:
    if not os.path.lexists(path):
        os.rename(folder, path)
        return
    if _exchange(folder, path):
        return  # the older one now has the temporary name, and goes with it
    aside = folder.with_name(folder.name.removesuffix(_SUFFIX) + ".old" + _SUFFIX)
    os.rename(path, aside)
    os.rename(folder, path)
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Whether the system could exchange the two names in one step."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number))


def _clear_abandoned(path: Path) -> None:
    """Remove the folders that killed runs left for this place; those of runs still writing are locked."""
    with suppress(OSError):
        for name in os.listdir(path.parent):
            if name.startswith(f".{path.name[:_NAME_BYTES]}.") and name.endswith(_SUFFIX):
                _remove_if_abandoned(path.parent / name)


def _remove_if_abandoned(old: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(old, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            os.close(descriptor)
