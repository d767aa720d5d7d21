"""The one place that opens outputs: checked before the work, then written whole or not at all."""

import ctypes
import errno
import fcntl
import glob
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from gcbs_cli.data.files import shown
from gcbs_cli.system.errors import BadInput, GcbsError

_SUFFIX: Final = ".gcbs-tmp"
_NAME_BYTES: Final = 180
"""A file name has at most 255 bytes; the target's is cut so that the random part and the suffix still fit."""
_ABANDONED_SECONDS: Final = 3600.0
_NO_SUCH_OPERATION: Final = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EACCES, errno.EBADF}
_LOCAL_SCHEMES: Final = ("local://", "file://")
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_ADVICE: Final = {
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

PathLike = Path | str | None


def check_outputs(outputs: Iterable[PathLike], inputs: Iterable[PathLike] = (), *, force: bool) -> None:
    """Refuse, before any work, an output that cannot be written or that is an input or another output as well.

    outputs: files; None and `-` (stdout) are passed over. inputs: files, folders, glob patterns, addresses. Without
    `force`, an output that exists is refused; with it, only an input or another output is. Raises BadInput.
    """
    outputs = list(outputs)
    check_apart(outputs, inputs)
    for path in outputs:
        if path is not None and str(path) != "-":
            _check_place(Path(path), force)


def check_apart(outputs: Iterable[PathLike], inputs: Iterable[PathLike]) -> None:
    """Refuse an output that is one of the inputs, lies in a folder of them, or is another output.

    Files are the same by device and inode or by resolved path. Raises BadInput.
    """
    read = [file for path in inputs if path is not None for file in _files_of(str(path))]
    written: list[str] = []
    for path in (str(path) for path in outputs if path is not None and str(path) != "-"):
        for other in read:
            if _same(path, other):
                raise BadInput(f"{shown(path)}: is read by this command ({shown(other)}); name another output")
        for other in written:
            if _same(path, other) or _same(other, path):
                raise BadInput(f"{shown(path)}: is an output already ({shown(other)}); name another one")
        written.append(path)


def _files_of(path: str) -> list[str]:
    for scheme in _LOCAL_SCHEMES:
        path = path.removeprefix(scheme)
    return glob.glob(path, recursive=True) if glob.has_magic(path) and not os.path.lexists(path) else [path]


def _same(path: str, other: str) -> bool:
    """Return whether both are one file, or `path` exists in the folder `other`."""
    if "\0" in path + other:
        return False
    with suppress(OSError):
        if os.path.samefile(path, other):
            return True
    resolved, place = os.path.realpath(path), os.path.realpath(other)
    return resolved == place or (os.path.lexists(resolved) and Path(place) in Path(resolved).parents)


def _check_place(path: Path, force: bool) -> None:
    name = shown(str(path))
    if "\0" in str(path):
        raise BadInput(f"output {name}: a file name cannot hold a NUL character")
    try:
        _refuse_special(path)
        folder = path.parent
        if not folder.exists():
            raise BadInput(f"{name}: the output folder {folder} does not exist; create it first")
        if not folder.is_dir():
            raise BadInput(f"{name}: {folder} is not a folder; write to another one")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise BadInput(f"{name}: the output folder {folder} is not writable; write to another one")
        if not force and os.path.lexists(path):
            raise BadInput(f"{name}: exists; use --force to replace it")
    except OSError as error:
        raise BadInput(_explain(path, error)) from error


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
        raise BadInput(f"{shown(str(path))}: is a folder; name a file in it")
    if not stat.S_ISREG(mode):
        raise BadInput(f"{shown(str(path))}: is not a regular file; name a file, or - for stdout")


def write(path: Path | str, fill: Callable[[BinaryIO], object] | str) -> None:
    """Let `fill` write a file, or write a text, that appears at `path` whole or not at all; an older file goes.

    Raises GcbsError when the disk, the folder or the file system does not take the file, and BadInput when `path` is a
    folder or a device. Whatever goes wrong, an interrupt included, no temporary file is left.
    """
    with file(Path(path)) as output:
        # A text may name files whose names are not UTF-8.
        output.write(fill.encode(errors="replace")) if isinstance(fill, str) else fill(output)


@contextmanager
def file(path: Path) -> Iterator[BinaryIO]:
    """Open the file to fill; it appears at `path` when the block ends without an exception. Raises as `write` does."""
    with _explained(path):
        _refuse_special(path)
        temporary, descriptor = _create(path, folder=False)
        try:
            # The rename happens while the file is open: its lock tells other runs that it is not abandoned.
            with os.fdopen(descriptor, "wb") as output:
                yield output
                output.flush()
                os.fsync(descriptor)
                with suppress(PermissionError):  # file systems without modes
                    os.fchmod(descriptor, 0o666 & ~umask())
                os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    _sync_parent(path)


@contextmanager
def folder(path: Path) -> Iterator[Path]:
    """Give the folder to fill; it appears at `path` when the block ends without an exception, in place of an older one.

    Linux exchanges the two in one step. Elsewhere an older folder is moved aside first, and a kill between the two
    renames leaves it under its hidden name. A link to a folder is followed. Raises GcbsError.
    """
    path = Path(os.path.realpath(path))
    with temporary_folder(path) as temporary:
        with _explained(path):
            yield temporary
            os.chmod(temporary, 0o777 & ~umask())
            _sync(temporary)
            _put_in_place(temporary, path)
        _sync_parent(path)


@contextmanager
def temporary_folder(beside: Path) -> Iterator[Path]:
    """Give a folder for this block alone, hidden beside a path; those that killed runs left there are removed.

    Raises GcbsError when it cannot be made.
    """
    with _explained(beside):
        temporary, descriptor = _create(beside, folder=True)
    try:
        yield temporary
    finally:
        os.close(descriptor)
        shutil.rmtree(temporary, ignore_errors=True)


def write_error(target: object, error: OSError) -> GcbsError:
    """Return the error for the user when writing `target` failed: its name, the reason and what to do, in one line."""
    return GcbsError(_explain(target, error))


def umask() -> int:
    """Return the process's umask. Reading it means setting it; meanwhile other threads' files are private, not open."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def _explained(target: object) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise write_error(target, error) from error


def _explain(target: object, error: OSError) -> str:
    advice = _ADVICE.get(error.errno or 0) or f"{error.strerror or error}; write to another folder or disk"
    return f"cannot write {shown(str(target))}: {advice}"


def _create(path: Path, *, folder: bool) -> tuple[Path, int]:
    """Make a private temporary file or folder beside `path`, locked until its descriptor is closed, however that is."""
    prefix = "." + os.fsdecode(os.fsencode(path.name)[:_NAME_BYTES]) + "."
    _clear_abandoned(path.parent, prefix)
    while True:
        temporary = path.parent / f"{prefix}{secrets.token_hex(8)}{_SUFFIX}"
        if folder:
            temporary.mkdir(mode=0o700)
        flags = os.O_RDONLY | os.O_DIRECTORY if folder else os.O_RDWR | os.O_CREAT | os.O_EXCL
        descriptor = os.open(temporary, flags | os.O_CLOEXEC, 0o600)
        with suppress(OSError):  # file systems without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.path.lexists(temporary):
            return temporary, descriptor
        os.close(descriptor)  # another run took it for abandoned before it was locked


def _clear_abandoned(parent: Path, prefix: str) -> None:
    """Remove what killed runs left for a target; what other runs are still writing is locked and stays."""
    with suppress(OSError):  # a folder that can be written but not listed
        for name in os.listdir(parent):
            if name.startswith(prefix) and name.endswith(_SUFFIX):
                with suppress(OSError):
                    _remove_if_abandoned(parent / name)


def _remove_if_abandoned(left: Path) -> None:
    descriptor = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        except OSError:  # without locks, what nobody has written to for an hour
            if time.time() - os.fstat(descriptor).st_mtime < _ABANDONED_SECONDS:
                return
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    finally:
        os.close(descriptor)


def _put_in_place(temporary: Path, path: Path) -> None:
    if not os.path.lexists(path):
        os.rename(temporary, path)
    elif not _exchange(temporary, path):  # else the older one now has the temporary name, and goes with it
        aside = temporary.with_name(temporary.name.removesuffix(_SUFFIX) + ".old" + _SUFFIX)
        os.rename(path, aside)
        os.rename(temporary, path)
        shutil.rmtree(aside, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; return whether the system could."""
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


def _sync_parent(path: Path) -> None:
    """Make the rename survive a power cut. Raises GcbsError that says that the output is in place."""
    try:
        _sync(path.parent)
    except OSError as error:
        raise GcbsError(
            f"{shown(str(path))}: is in place and whole, but the disk did not confirm it ({error.strerror or error}); "
            "a power cut could still undo it"
        ) from error


def _sync(folder: Path) -> None:
    """Sync a folder, where the file system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_SUCH_OPERATION:
            raise
