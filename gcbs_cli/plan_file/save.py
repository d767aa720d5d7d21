"""Save a permutation together with its manifest, so that a kill at any moment leaves a pair that matches."""

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.plan_file import writing
from gcbs_cli.plan_file.manifest import (
    ManifestEntry,
    manifest_path,
    permutation_hash,
    plan_files,
    read_manifest,
    write_manifest,
)
from gcbs_cli.plan_file.permutation import check_suffix, read_permutation, verify_permutation, write_permutation
from gcbs_cli.plan_file.shards import check_folder, is_folder, write_folder
from gcbs_cli.plan_file.writing import PathLike
from gcbs_cli.system.errors import BadInput, GcbsError


def check_plan_output(
    path: Path | str, inputs: Iterable[PathLike] = (), others: Sequence[PathLike] = (), *, force: bool
) -> None:
    """Say before any work whether a plan can be saved at `path`, with its manifest, and `others` can be written too.

    inputs: what the command reads. Raises BadInput as `check_outputs` does, and for a format that is not written.
    Without `force` a file that lies in the manifest's place and is none is refused as well; a manifest whose
    permutation is gone is replaced.
    """
    writing.check_apart([*plan_files(path), *others], inputs)
    writing.check_outputs(others, force=force)
    if str(path) == "-":
        return
    if is_folder(path):
        check_folder(Path(path), force=force)
        return
    check_suffix(path)
    writing.check_outputs([path], force=force)
    writing.check_outputs([manifest_path(Path(path))], force=True)
    if not force:
        try:
            read_manifest(Path(path))
        except BadInput as error:
            raise BadInput(f"{error}; use --force to replace it") from error


def save_plan(path: Path | str, perm: NDArray[np.int64], entry: ManifestEntry) -> None:
    """Save `perm` and its manifest entry at `path`; `-` writes the lines to stdout and no manifest.

    While the permutation is replaced the manifest holds both entries, the new one and that of the old permutation,
    so whichever a kill leaves behind has its entry. Two saves at once to one folder wait for each other.
    Raises BadInput when `perm` is no permutation or is not the one `entry` describes, and GcbsError when the disk
    does not take it; then what was there before is there again.
    """
    verify_permutation(perm, len(perm))
    if str(path) == "-":
        write_permutation(path, perm, entry.batch_size)
        return
    if permutation_hash(perm) != entry.permutation_hash:
        raise BadInput(f"{path}: the manifest entry is of another permutation ({entry.permutation_hash})")
    if is_folder(path):
        write_folder(Path(path), perm, entry)
        return
    path = Path(path)
    check_suffix(path)
    with _locked(path.parent):
        old = _entries_of_current(path)
        try:
            write_manifest(path, [entry, *(other for other in old if other.permutation_hash != entry.permutation_hash)])
            write_permutation(path, perm, entry.batch_size)
        except BaseException:
            _restore_manifest(path, entry, old)
            raise
        # What is on disk is whole already, and every reader picks the entry by its hash.
        with suppress(GcbsError):
            write_manifest(path, [entry])


def _entries_of_current(path: Path) -> list[ManifestEntry]:
    """Return the entry of the permutation that lies at `path` now, if it has one."""
    try:
        manifest = read_manifest(path)
    except BadInput:  # the user has asked to replace it
        return []
    current = _current_hash(path)
    return [entry for entry in (manifest.entries if manifest else ()) if entry.permutation_hash == current][:1]


def _current_hash(path: Path) -> str | None:
    try:
        return permutation_hash(read_permutation(path))
    except BadInput:
        return None


def _restore_manifest(path: Path, new: ManifestEntry, old: list[ManifestEntry]) -> None:
    """Undo step one, unless the new permutation has arrived already; a manifest with both entries is right too."""
    with suppress(OSError, GcbsError):
        if _current_hash(path) == new.permutation_hash:
            return
        if old:
            write_manifest(path, old)
        else:
            manifest_path(path).unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's advisory lock, which the system releases when the process ends and which leaves no file.

    Waits while another run saves. File systems without locks on folders (NFS) go without: there, two saves at once to
    one output may leave the manifest of the other one.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # writing says what is wrong with the folder, if anything is
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
