"""Find the reports of the epochs, and the plans that lie beside them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.files import shown
from gcbs_cli.data.folders import list_pattern, natural_key
from gcbs_cli.plan_file.manifest import SCHEMA, ManifestEntry, entry_for, read_manifest
from gcbs_cli.plan_file.permutation import SUFFIXES, read_permutation
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.system.errors import BadInput

_MANIFEST_END: Final = ".manifest.json"


@dataclass(frozen=True)
class HistoryInput:
    """One epoch: its report, and where they were found the plan (N,) and its manifest entry."""

    name: str
    report: GapReport
    perm: NDArray[np.int64] | None = None
    entry: ManifestEntry | None = None


def read_history(paths: list[str], plans: str | None = None, *, keep_order: bool = False) -> list[HistoryInput]:
    """Read the reports in natural order (epoch-2 before epoch-10), or in the order given.

    Manifests among `paths` are passed over. `plans`: a pattern of the plans, in the same order; without it the plan of
    `epoch-2.json` is `epoch-2.npy`, `.parquet` or `.txt` beside it, where that exists.
    Raises BadInput for what is no report, and where reports or plans do not belong together.
    """
    reports = [path for path in paths if not path.endswith(_MANIFEST_END)]
    reports = reports if keep_order else sorted(reports, key=natural_key)
    if not reports:
        raise BadInput("found no report, expected files that gcbs report -o or gcbs plan --report wrote")
    found = _plans_by_pattern(plans, len(reports)) if plans is not None else [_plan_beside(path) for path in reports]
    return [_epoch(path, plan) for path, plan in zip(reports, found, strict=True)]


def _plans_by_pattern(pattern: str, wanted: int) -> list[str | None]:
    files: list[str | None] = [path for path in list_pattern(pattern) if not path.endswith(_MANIFEST_END)]
    if len(files) != wanted:
        raise BadInput(f"--plans {shown(pattern)}: found {len(files)} plans, expected {wanted}, one for each report")
    return files


def _plan_beside(report: str) -> str | None:
    return next((str(path) for suffix in SUFFIXES if (path := Path(report).with_suffix(suffix)).is_file()), None)


def _epoch(path: str, plan: str | None) -> HistoryInput:
    report = _read_report(path)
    if plan is None:
        return HistoryInput(Path(path).stem, report)
    perm = read_permutation(plan)
    if len(perm) != report.n:
        raise BadInput(f"{shown(plan)}: found {len(perm):,} rows, expected the {report.n:,} of {shown(path)}")
    manifest = read_manifest(Path(plan))
    return HistoryInput(Path(path).stem, report, perm, entry_for(manifest, perm) if manifest else None)


def _read_report(path: str) -> GapReport:
    from pydantic import ValidationError

    try:
        content: Any = json.loads(Path(path).read_bytes())
    except FileNotFoundError:
        raise BadInput(f"{shown(path)}: found no such file, expected a report; check the path") from None
    except OSError as error:
        raise BadInput(f"{shown(path)}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise BadInput(f"{shown(path)}: found no JSON, expected a report of gcbs report -o") from None
    if isinstance(content, dict) and content.get("schema") == SCHEMA:
        raise BadInput(f"{shown(path)}: found a plan's manifest, expected a report of gcbs report -o")
    if isinstance(content, dict) and isinstance(content.get("results"), list) and content["results"]:
        content = content["results"][0]
    try:
        return GapReport.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise BadInput(
            f"{shown(path)}: found no report ({place}: {first['msg']}); write it with gcbs report -o"
        ) from None
