"""Plans, permutations with their manifests: saved so that a kill at any moment leaves a pair, loaded and checked."""

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from gcbs_cli.data.reading import PairStream
from gcbs_cli.plan_file import writing
from gcbs_cli.plan_file.manifest import (
    ManifestEntry,
    entry_for,
    manifest_path,
    permutation_hash,
    read_entries,
    write_manifest,
)
from gcbs_cli.plan_file.permutation import FORMATS, check_suffix, read_permutation, verify_permutation, write_stdout
from gcbs_cli.plan_file.writing import PathLike
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput, GcbsError

OTHER_MANIFEST = "the manifest is of another permutation: one was changed, or copied without the other"


def check_plan_output(
    path: Path | str, inputs: Iterable[PathLike] = (), others: Sequence[PathLike] = (), *, force: bool
) -> None:
    """Say before any work whether a plan can be saved at `path`, with its manifest, and `others` can be written too.

    inputs: what the command reads. Raises BadInput as `check_outputs` does, and for a format that is not written.
    """
    files = [] if str(path) == "-" else [path]
    writing.check_outputs([*files, *others], inputs, force=force)
    if files:
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
    path, (_, fill) = Path(path), FORMATS[check_suffix(path)]
    with _locked(path.parent):
        before: list[ManifestEntry] = []
        with suppress(BadInput):  # a damaged one is replaced
            before = read_entries(path)
        with writing.file(path) as output:
            fill(output, perm, entry.batch_size)
            output.flush()
            with suppress(writing.NotSynced):  # the permutation's own follows
                write_manifest(path, [entry, *before])
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


@dataclass(frozen=True)
class Plan:
    """A permutation (N,) int64 and what its manifest says of it; None where there is no manifest."""

    perm: Ints
    name: str
    batch_size: int | None = None
    drop_last: bool = False
    world_size: int | None = None
    gather: bool = False

    @property
    def rows(self) -> int:
        """N."""
        return len(self.perm)

    @property
    def hash(self) -> str:
        """The same for the same order."""
        return permutation_hash(self.perm)


def load_plan(path: Path | str, rows: int | None = None) -> Plan:
    """Read a plan and its manifest.

    Raises BadInput when it is no permutation (of `rows` rows, if given), or when the manifest beside it is of another
    permutation: then one of the two was edited or copied alone.
    """
    perm = read_permutation(path, rows)
    verify_permutation(perm, len(perm), str(path))
    entries = read_entries(path)
    if not entries:
        return Plan(perm, "stdin" if str(path) == "-" else str(path))
    entry = entry_for(entries, perm)
    if entry is None:
        raise BadInput(f"{path}: {OTHER_MANIFEST}; plan again, or remove the manifest")
    return Plan(perm, str(path), entry.batch_size, entry.drop_last, entry.world_size, entry.gather)


class Finding(NamedTuple):
    """One thing that was looked at. An error means: do not train with this plan."""

    level: Literal["ok", "warning", "error"]
    message: str


def check_plan(perm: Ints, entry: ManifestEntry | None, data: PairStream | None = None) -> Iterator[Finding]:
    """Compare a plan with its manifest entry, and with the data if it was read.

    Without data, the entry says how many rows there should be, and without an entry the permutation's own length does.
    """
    expected = data.rows if data is not None else entry.rows if entry is not None else len(perm)
    try:
        verify_permutation(perm, expected)
        yield Finding("ok", f"a permutation of 0..{expected - 1}: each row once")
    except BadInput as error:
        yield Finding("error", str(error))
    if entry is None:
        yield Finding("warning", "no manifest, so nothing says what the plan was made from, or for which k")
        return
    if permutation_hash(perm) == entry.permutation_hash:
        yield Finding("ok", f"the manifest is this permutation's ({entry.method}, gcbs {entry.tool_version})")
    else:
        yield Finding("error", OTHER_MANIFEST)
    planned, found = entry.inputs, ("", "") if data is None else data.fingerprints
    if found[0] != found[1] and found == (planned.y.fingerprint, planned.x.fingerprint):
        message = f"X and Y are swapped: the plan has {planned.x.name} as X and {planned.y.name} as Y"
        yield Finding("error", message)
    elif data is not None:
        for side, given, record in zip("XY", found, (planned.x, planned.y), strict=True):
            if given == record.fingerprint:
                yield Finding("ok", f"{side} is what the plan was made from")
            else:
                made_from = f"{record.name}, {record.rows} rows"
                yield Finding("error", f"{side} is not what the plan was made from ({made_from}): plan again")
    yield Finding("ok", _batches(entry, expected))


def _batches(entry: ManifestEntry, rows: int) -> str:
    full, rest = divmod(rows, entry.batch_size)
    message = f"batch size {entry.batch_size}: {full} full {'batch' if full == 1 else 'batches'}"
    if not rest:
        return message
    left = f"{rest} {'row' if rest == 1 else 'rows'}"
    return f"{message} and {left} that the trainer drops" if entry.drop_last else f"{message} and a last one of {left}"
