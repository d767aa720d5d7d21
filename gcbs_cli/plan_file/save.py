"""Save a permutation together with its manifest, so that a kill at any moment leaves a pair that matches."""

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.files import shown
from gcbs_cli.plan_file import writing
from gcbs_cli.plan_file.manifest import (
    FOLDER_MANIFEST,
    ManifestEntry,
    ShardRecord,
    is_folder,
    plan_files,
    read_manifest,
    write_manifest,
)
from gcbs_cli.plan_file.permutation import check_suffix, fill, verify_permutation, write_permutation, write_stdout
from gcbs_cli.plan_file.writing import PathLike
from gcbs_cli.system.errors import BadInput, GcbsError

SHARD_ROWS: Final = 1 << 24
"""Rows of a file, about, where the plan has no parts: 128 MiB."""
_SHARDS: Final = "*part-?????-????????.npy*"
"""Names of shards, temporary ones included; the second part is of the permutation's hash."""


def check_plan_output(
    path: Path | str, inputs: Iterable[PathLike] = (), others: Sequence[PathLike] = (), *, force: bool
) -> None:
    """Say before any work whether a plan can be saved at `path`, with its manifest, and `others` can be written too.

    inputs: what the command reads. Raises BadInput as `check_outputs` does, for a format that is not written, and for a
    folder that holds anything but a plan.
    """
    if not is_folder(path):
        writing.check_outputs([*plan_files(path), *others], inputs, force=force)
        if str(path) != "-":
            check_suffix(path)
        return
    folder, name = Path(path), shown(str(path))
    writing.check_apart([folder, *others], inputs)
    writing.check_outputs(others, force=force)
    if not folder.is_dir():
        writing.check_outputs([folder], force=force)
        return
    if not force:
        raise BadInput(f"{name}: exists; use --force to replace it")
    writing.check_outputs([folder / FOLDER_MANIFEST], force=True)
    for other in sorted(set(os.listdir(folder)) - _shards(folder)):
        if other != FOLDER_MANIFEST and not other.startswith("."):
            raise BadInput(
                f"{name}: is a folder and no plan (holds {shown(other)}); name another one, it will not be replaced"
            )


def save_plan(path: Path | str, perm: NDArray[np.int64], entry: ManifestEntry) -> None:
    """Save `perm` and its manifest entry at `path`; `-` writes the lines to stdout and no manifest.

    Two saves at once to one folder wait for each other. Raises BadInput when `perm` is no permutation, and GcbsError
    when the disk does not take it; then what was there before is there still.
    """
    verify_permutation(perm, len(perm))
    if str(path) == "-":
        write_stdout(perm)
        return
    with _locked(Path(path).parent):
        (_save_folder if is_folder(path) else _save_file)(Path(path), perm, entry)


def _save_file(path: Path, perm: NDArray[np.int64], entry: ManifestEntry) -> None:
    """Before the permutation is replaced, the manifest gets both entries, so that whichever is there has its own."""
    manifest = None
    with suppress(BadInput):  # a damaged one is replaced
        manifest = read_manifest(path)
    with writing.file(path) as output:
        fill(path, perm, entry.batch_size, output)
        output.flush()
        write_manifest(path, [entry, *(manifest.entries if manifest else ())])
    with suppress(GcbsError):  # what is on disk is whole already: every reader picks the entry by its hash
        write_manifest(path, [entry])


def _save_folder(path: Path, perm: NDArray[np.int64], entry: ManifestEntry) -> None:
    """Write the shards beside those of an older plan, then the manifest that names them; the others are removed."""
    step = max(1, SHARD_ROWS // entry.batch_size) * entry.batch_size
    sizes = entry.partitions.sizes if entry.partitions is not None else [step] * -(-len(perm) // step)
    with writing.explained(path):
        path.mkdir(exist_ok=True)
    before, shards = _shards(path), []
    try:
        for number, piece in enumerate(np.split(perm, np.cumsum(sizes)[:-1])):
            shards.append(ShardRecord(name=f"part-{number:05d}-{entry.permutation_hash[-8:]}.npy", rows=len(piece)))
            write_permutation(path / shards[-1].name, piece, entry.batch_size)
        write_manifest(path, [entry.model_copy(update={"shards": shards})])
    finally:
        for name in (before | _shards(path)) - _named(path):
            (path / name).unlink(missing_ok=True)
        with suppress(OSError):  # empty after a first plan that failed
            path.rmdir()


def _shards(folder: Path) -> set[str]:
    """Names of the files in a folder that its manifest names, or that are shards by their name."""
    named = _named(folder)
    return {path.name for path in folder.iterdir() if path.name in named or path.match(_SHARDS)}


def _named(folder: Path) -> set[str]:
    with suppress(BadInput):
        manifest = read_manifest(folder)
        return {shard.name for entry in manifest.entries for shard in entry.shards or ()} if manifest else set()
    return set()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's advisory lock, which leaves no file; file systems without locks on folders go without."""
    with writing.explained(folder):
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
