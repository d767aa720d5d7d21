"""Is a plan a permutation, is the manifest its own, does it belong to this data: for `gcbs check` and trainers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.plan_file.manifest import Manifest, ManifestEntry, entry_for, permutation_hash, read_manifest
from gcbs_cli.plan_file.permutation import read_permutation, verify_permutation
from gcbs_cli.system.errors import BadInput


@dataclass(frozen=True)
class Plan:
    """A permutation (N,) int64 and what its manifest says of it; None where there is no manifest."""

    perm: NDArray[np.int64]
    name: str
    batch_size: int | None = None
    drop_last: bool | None = None
    world_size: int | None = None
    gather: bool | None = None

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
    manifest = None if str(path) == "-" else read_manifest(Path(path))
    if manifest is None:
        return Plan(perm, "stdin" if str(path) == "-" else str(path))
    entry = entry_for(manifest, perm)
    if entry is None:
        raise BadInput(
            f"{path}: the manifest beside it is of another permutation: one of the two was changed or copied alone; "
            "plan again, or remove the manifest"
        )
    return Plan(perm, str(path), entry.batch_size, entry.drop_last, entry.world_size, entry.gather or None)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. An error means: do not train with this plan."""

    level: Literal["ok", "warning", "error"]
    message: str


def entry_to_check(manifest: Manifest | None, perm: NDArray[np.int64]) -> ManifestEntry | None:
    """The entry of `perm`, else the manifest's first, which `check_plan` then finds to be another one's."""
    if manifest is None or not manifest.entries:
        return None
    return entry_for(manifest, perm) or manifest.entries[0]


def check_plan(
    perm: NDArray[np.int64],
    entry: ManifestEntry | None,
    x_fingerprint: str | None = None,
    y_fingerprint: str | None = None,
    rows: int | None = None,
) -> list[Finding]:
    """Compare a plan with its manifest entry and, as far as they are given, with the data's fingerprints and rows.

    Without `rows`, the entry says how many there should be, and without an entry the permutation's own length does.
    """
    expected = rows if rows is not None else entry.rows if entry is not None else len(perm)
    findings = [_check_order(perm, expected)]
    if entry is None:
        findings.append(Finding("warning", "no manifest: what the plan was made from, and for which k, is not known"))
        return findings
    findings.append(_check_hash(perm, entry))
    findings += _check_data(entry, x_fingerprint, y_fingerprint)
    findings.append(_check_batch_size(entry, expected))
    return findings


def _check_order(perm: NDArray[np.int64], rows: int) -> Finding:
    try:
        verify_permutation(perm, rows)
    except BadInput as error:
        return Finding("error", str(error))
    return Finding("ok", f"a permutation of 0..{rows - 1}: each row once")


def _check_hash(perm: NDArray[np.int64], entry: ManifestEntry) -> Finding:
    if permutation_hash(perm) == entry.permutation_hash:
        return Finding("ok", f"the manifest is this permutation's ({entry.method}, gcbs {entry.tool_version})")
    return Finding("error", "the manifest is of another permutation: one of the two was changed or copied alone")


def _check_data(entry: ManifestEntry, x: str | None, y: str | None) -> list[Finding]:
    planned_x, planned_y = entry.inputs.x, entry.inputs.y
    swapped = x == planned_y.fingerprint and y == planned_x.fingerprint and x != y
    if swapped:
        return [Finding("error", f"X and Y are swapped: the plan has {planned_x.name} as X and {planned_y.name} as Y")]
    findings = []
    for side, given, planned in (("X", x, planned_x), ("Y", y, planned_y)):
        if given == planned.fingerprint:
            findings.append(Finding("ok", f"{side} is what the plan was made from"))
        elif given is not None:
            message = f"{side} is not what the plan was made from ({planned.name}, {planned.rows} rows): plan again"
            findings.append(Finding("error", message))
    return findings


def _check_batch_size(entry: ManifestEntry, rows: int) -> Finding:
    full, rest = divmod(rows, entry.batch_size)
    message = f"batch size {entry.batch_size}: {full} full {'batch' if full == 1 else 'batches'}"
    if rest:
        left = f"{rest} {'row' if rest == 1 else 'rows'}"
        message += f" and {left} that the trainer drops" if entry.drop_last else f" and a last one of {left}"
    return Finding("ok", message)
