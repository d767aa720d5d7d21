"""Save a permutation together with its manifest, so that a kill at any moment leaves a pair that matches."""

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from gcbs_cli.plan_file import writing
from gcbs_cli.plan_file.manifest import ManifestEntry, manifest_path, read_manifest, write_manifest
from gcbs_cli.plan_file.permutation import check_suffix, fill, verify_permutation, write_stdout
from gcbs_cli.plan_file.writing import PathLike
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput, GcbsError


def check_plan_output(
    path: Path | str, inputs: Iterable[PathLike] = (), others: Sequence[PathLike] = (), *, force: bool
) -> None:
    """Say before any work whether a plan can be saved at `path`, with its manifest, and `others` can be written too.

    inputs: what the command reads. Raises BadInput as `check_outputs` does, and for a format that is not written.
    """
    writing.check_outputs([path, *others], inputs, force=force)
    if str(path) != "-":
        check_suffix(path)
        # Without --force too: it may be there still when its permutation is gone.
        writing.check_outputs([manifest_path(Path(path))], [*inputs, *others], force=True)


def save_plan(path: Path | str, perm: Ints, entry: ManifestEntry) -> None:
    """Save `perm` and its manifest entry at `path`; `-` writes the lines to stdout and no manifest.

    Before the permutation is replaced, the manifest gets both entries, so that whichever is there has its own. Two
    saves at once to one folder wait for each other. Raises BadInput when `perm` is no permutation, and GcbsError
    when the disk does not take it; then what was there before is there still.
    """
    verify_permutation(perm, len(perm))
    if str(path) == "-":
        write_stdout(perm)
        return
    path = Path(path)
    with _locked(path.parent):
        manifest = None
        with suppress(BadInput):  # a damaged one is replaced
            manifest = read_manifest(path)
        with writing.file(path) as output:
            fill(path, perm, entry.batch_size, output)
            output.flush()
            with suppress(writing.NotSynced):  # the permutation's own follows
                write_manifest(path, [entry, *(manifest.entries if manifest else ())])
        with suppress(GcbsError):  # what is on disk is whole already: every reader picks the entry by its hash
            write_manifest(path, [entry])


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
