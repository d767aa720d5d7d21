"""Plans, permutations with their manifests: saved one after the other, loaded together and checked."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from gcbs_cli.data.files import shown
from gcbs_cli.data.reading import PairStream
from gcbs_cli.plan_file import writing
from gcbs_cli.plan_file.manifest import InputsRecord, Manifest, manifest_path, permutation_hash, read_manifest
from gcbs_cli.plan_file.permutation import FORMATS, check_suffix, read_permutation, verify_permutation, write_stdout
from gcbs_cli.plan_file.writing import PathLike
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput

OTHER_MANIFEST = (
    "the manifest is of another permutation: a save was interrupted, or one of the two was changed or copied alone"
)
_SECONDS_TO_MATCH = 2.0
"""A save puts the manifest in place, then its permutation: longer than that takes on a busy disk."""
_SECONDS_BETWEEN_READS = 0.1


def check_plan_output(
    path: Path | str, inputs: Mapping[object, str], others: Sequence[PathLike] = (), *, force: bool
) -> None:
    """Say before any work whether a plan can be saved at `path`, with its manifest, and `others` can be written too.

    Raises BadInput as `check_outputs` does, and for a format that is not written.
    """
    files: list[PathLike] = []
    if str(path) != "-":
        check_suffix(path)
        files = [path, manifest_path(path)]
        # A manifest alone is of a permutation that was removed, or whose save was interrupted: it goes, if it is one.
        if not os.path.lexists(path) and read_manifest(path) is not None:
            manifest_path(path).unlink()
    writing.check_outputs([*files, *others], inputs, force=force)


def save_plan(path: Path | str, perm: Ints, manifest: Manifest, *, force: bool = False) -> None:
    """Save a manifest and then its permutation at `path`; `-` writes the lines to stdout and no manifest.

    So no new permutation ever stands without its manifest. A kill between the two leaves the old permutation with the
    new manifest, whose hash tells. Raises BadInput when `perm` is no permutation or, without `force`, where there is
    such a file by now, and GcbsError when the disk does not take it.
    """
    verify_permutation(perm, len(perm))
    if str(path) == "-":
        write_stdout(perm)
        return
    _, fill = FORMATS[check_suffix(path)]
    with writing.file(Path(path), force=force) as output:
        fill(output, perm, manifest.batch_size)
        # The permutation is on the disk before the manifest is replaced: a full disk leaves the old plan as it was.
        output.flush()
        os.fsync(output.fileno())
        writing.check_outputs([path], {}, force=force)  # once more
        writing.write(manifest_path(path), manifest.model_dump_json(indent=2) + "\n", force=force)


@dataclass(frozen=True)
class LoadedPlan:
    """A permutation (N,) int64, what it is called, and what its manifest says; None and False where there is none."""

    perm: Ints
    name: str
    batch_size: int | None = None
    drop_last: bool = False
    world_size: int | None = None
    gather: bool = False
    manifest: Manifest | None = None

    @property
    def rows(self) -> int:
        """N."""
        return len(self.perm)

    @property
    def hash(self) -> str:
        """The same for the same order."""
        return permutation_hash(self.perm)


def load_plan(path: Path | str, rows: int | None = None) -> LoadedPlan:
    """Read a plan and its manifest.

    Raises BadInput when it is no permutation (of `rows` rows, if given), or when the manifest beside it is of another
    permutation.
    """
    perm, manifest = read_plan(path)
    name = "stdin" if str(path) == "-" else str(path)
    verify_permutation(perm, len(perm) if rows is None else rows, shown(name))
    if manifest is None:
        return LoadedPlan(perm, name)
    if not manifest.is_of(perm):
        raise BadInput(f"{shown(name)}: {OTHER_MANIFEST}; plan again, or remove the manifest")
    return LoadedPlan(
        perm, name, manifest.batch_size, manifest.drop_last, manifest.world_size, manifest.gather, manifest=manifest
    )


def read_plan(path: Path | str) -> tuple[Ints, Manifest | None]:
    """Read a permutation and its manifest without comparing them with each other or with data.

    Where they do not match, another process may be between its two renames: both are read again for two seconds.
    """
    deadline = time.monotonic() + _SECONDS_TO_MATCH
    perm, manifest = read_permutation(path), read_manifest(path)
    while manifest is not None and not manifest.is_of(perm) and time.monotonic() < deadline:
        time.sleep(_SECONDS_BETWEEN_READS)
        perm, manifest = read_permutation(path), read_manifest(path)
    return perm, manifest


class Finding(NamedTuple):
    """One thing that was looked at. An error means: do not train with this plan."""

    level: Literal["ok", "warning", "error"]
    message: str


def check_plan(perm: Ints, manifest: Manifest | None, data: PairStream | None = None) -> Iterator[Finding]:
    """Compare a plan with its manifest, and with the data if it was read.

    Without data, the manifest says how many rows there should be; without that, the permutation's own length does.
    """
    rows = len(perm)
    if data is not None:
        rows = data.rows
    elif manifest is not None:
        rows = manifest.rows
    try:
        verify_permutation(perm, rows)
        yield Finding("ok", f"a permutation of 0..{rows - 1}: each row once")
    except BadInput as error:
        yield Finding("error", str(error))
    if manifest is None:
        yield Finding("warning", "no manifest, so nothing says what the plan was made from, or for which k")
        return
    if manifest.is_of(perm):
        yield Finding("ok", f"the manifest is this permutation's ({manifest.method}, gcbs {manifest.tool_version})")
    else:
        yield Finding("error", f"{OTHER_MANIFEST}: plan again")
    if data is not None:
        yield from _check_inputs(manifest.inputs, data.fingerprints)
    full, rest = divmod(rows, manifest.batch_size)
    last = "rows that the trainer drops" if manifest.drop_last else "rows in a last one"
    yield Finding("ok", f"batch size: {manifest.batch_size}; full batches: {full}; {last}: {rest}")


def _check_inputs(planned: InputsRecord, fingerprints: tuple[str, str]) -> Iterator[Finding]:
    """Compare the content of both sides with what the plan was made from."""
    for side, record, fingerprint in zip("XY", (planned.x, planned.y), fingerprints, strict=True):
        if fingerprint == record.fingerprint:
            yield Finding("ok", f"{side} is what the plan was made from")
        else:
            made_from = f"{record.name}, {record.rows} rows"
            yield Finding("error", f"{side} is not what the plan was made from ({made_from}): plan again")
