"""Write a file whole or not at all: a private temporary file in the same folder, fsync, rename."""

import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gcbs_cli.system.errors import BadInput, GcbsError

_SUFFIX = ".gcbs-tmp"
_ABANDONED_SECONDS = 3600.0
# A file name has at most 255 bytes; the target's name is cut so that process id, random part and suffix still fit.
_NAME_BYTES = 180
_NO_SUCH_OPERATION = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EACCES, errno.EBADF}
_ADVICE = {
    errno.ENOSPC: "no space left on the disk; free some or write to another folder",
    errno.EDQUOT: "the disk quota is used up; free some space or write to another folder",
    errno.EFBIG: "the file would pass the size limit; raise it (ulimit -f) or write to another folder",
    errno.EROFS: "the file system is read-only; write to another folder",
    errno.EACCES: "no permission to write here; write to another folder",
    errno.EPERM: "no permission to write here; write to another folder",
    errno.ENOENT: "the output folder was removed meanwhile; create it and run again",
    errno.ENOTDIR: "the output folder is no longer a folder; write to another one",
    errno.ENAMETOOLONG: "the file name is too long; choose a shorter one",
    errno.EIO: "the disk reported an error; write to another disk",
    errno.ESTALE: "the network folder was lost; write to another folder or run again",
    errno.EMFILE: "too many open files; raise the limit (ulimit -n)",
}


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a file that appears at `path` whole or not at all; an existing file is replaced.

    Raises GcbsError when the disk, the folder or the file system does not let the file be written, and BadInput when
    `path` is a folder or a device. Whatever goes wrong, an interrupt included, no temporary file is left.
    """
    with atomic_file(path) as file:
        write(file)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """The same as a context manager: the file appears at `path` when the block ends without an exception."""
    temporary = _temporary_path(path)
    try:
        _refuse_special(path)
        clear_abandoned(path)
        try:
            # The rename happens while the file is open: its lock tells other runs that it is not abandoned.
            with _create_private(temporary) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                with suppress(PermissionError):  # file systems without modes
                    os.fchmod(file.fileno(), 0o666 & ~umask())
                os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        sync_folder(path.parent)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise write_error(path, error) from error


def check_writable(path: Path, force: bool) -> None:
    """Say before any work whether `path` can be written; writes nothing. `-` (stdout) always can.

    Raises BadInput when the folder is missing or not writable, when `path` is a folder or a device, and when it
    exists and `force` is false.
    """
    if str(path) == "-":
        return
    if "\0" in str(path):
        raise BadInput(f"output {str(path)!r}: a file name cannot hold a NUL character")
    try:
        _refuse_special(path)
        folder = path.parent
        if not folder.exists():
            raise BadInput(f"{path}: the output folder {folder} does not exist; create it first")
        if not folder.is_dir():
            raise BadInput(f"{path}: {folder} is not a folder; write to another one")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise BadInput(f"{path}: the output folder {folder} is not writable; write to another one")
        if not force and os.path.lexists(path):
            raise BadInput(f"{path}: exists; use --force to replace it")
    except OSError as error:
        raise BadInput(_explain(path, error)) from error


def clear_abandoned(path: Path) -> None:
    """Remove the temporary files that killed runs left for this target; those of runs still writing stay."""
    prefix = _temporary_prefix(path)
    pattern = re.compile(re.escape(prefix) + r"(\d+)\.[0-9a-f]+" + re.escape(_SUFFIX))
    with suppress(OSError):  # a folder that can be written but not listed
        for name in os.listdir(path.parent):
            if name.startswith(prefix) and (match := pattern.fullmatch(name)):
                with suppress(OSError):
                    _remove_if_abandoned(path.parent / name, int(match[1]))


def write_error(target: object, error: OSError) -> GcbsError:
    """The error for the user when writing `target` failed: its name, the reason and what to do, in one line."""
    return GcbsError(_explain(target, error))


def _explain(target: object, error: OSError) -> str:
    advice = _ADVICE.get(error.errno or 0) or f"{error.strerror or error}; write to another folder or disk"
    return f"cannot write {target}: {advice}"


def _refuse_special(path: Path) -> None:
    """Refuse folders and devices: renaming over /dev/null as root would replace the device itself."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link to itself can be replaced
            return
        raise
    if stat.S_ISDIR(mode):
        raise BadInput(f"{path}: is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        raise BadInput(f"{path}: is not a regular file; name a file, or - for stdout")


def _temporary_prefix(path: Path) -> str:
    return "." + os.fsdecode(os.fsencode(path.name)[:_NAME_BYTES]) + "."


def _temporary_path(path: Path) -> Path:
    return path.parent / f"{_temporary_prefix(path)}{os.getpid()}.{secrets.token_hex(8)}{_SUFFIX}"


def _create_private(temporary: Path) -> BinaryIO:
    """Create the file for the owner alone and lock it; the lock goes with the process, however that ends."""
    while True:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with suppress(OSError):  # file systems without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return os.fdopen(descriptor, "wb")
        os.close(descriptor)  # another run took it for abandoned between the two calls


def _remove_if_abandoned(temporary: Path, process: int) -> None:
    try:
        descriptor = os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        _remove_if_old(temporary, process)
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(temporary)
    except BlockingIOError:
        return
    except OSError:
        _remove_if_old(temporary, process)
    finally:
        os.close(descriptor)


def _remove_if_old(temporary: Path, process: int) -> None:
    """Where locks cannot tell: a file whose process is gone, or which nobody has written to for an hour."""
    if not _alive(process) or time.time() - os.lstat(temporary).st_mtime > _ABANDONED_SECONDS:
        os.unlink(temporary)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def umask() -> int:
    """The process's umask. Reading it means setting it; meanwhile other threads' files are private, not open."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def sync_folder(folder: Path) -> None:
    """Make the rename survive a power cut, where the file system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_SUCH_OPERATION:
            raise
