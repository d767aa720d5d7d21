"""What `gcbs check` finds: is it a permutation, is the manifest its own, does it belong to this data."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.plan_file.permutation import permutation_hash, verify_permutation
from gcbs_cli.system.errors import BadInput

if TYPE_CHECKING:
    from gcbs_cli.plan_file.manifest import Manifest, ManifestEntry


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. An error means: do not train with this plan."""

    level: Literal["ok", "warning", "error"]
    message: str


def entry_to_check(manifest: "Manifest | None", perm: NDArray[np.int64]) -> "ManifestEntry | None":
    """The entry of `perm`, else the manifest's first, which `check_plan` then finds to be another one's."""
    if manifest is None or not manifest.entries:
        return None
    wanted = permutation_hash(perm)
    return next((entry for entry in manifest.entries if entry.permutation_hash == wanted), manifest.entries[0])


def check_plan(
    perm: NDArray[np.int64],
    entry: "ManifestEntry | None",
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


def _check_hash(perm: NDArray[np.int64], entry: "ManifestEntry") -> Finding:
    if permutation_hash(perm) == entry.permutation_hash:
        return Finding("ok", f"the manifest is this permutation's ({entry.method}, gcbs {entry.tool_version})")
    return Finding("error", "the manifest is of another permutation: one of the two was changed or copied alone")


def _check_data(entry: "ManifestEntry", x: str | None, y: str | None) -> list[Finding]:
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


def _check_batch_size(entry: "ManifestEntry", rows: int) -> Finding:
    full, rest = divmod(rows, entry.batch_size)
    message = f"batch size {entry.batch_size}: {full} full {'batch' if full == 1 else 'batches'}"
    if rest:
        left = f"{rest} {'row' if rest == 1 else 'rows'}"
        message += f" and {left} that the trainer drops" if entry.drop_last else f" and a last one of {left}"
    return Finding("ok", message)
