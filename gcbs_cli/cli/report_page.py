"""What `gcbs report --html` adds: neighbouring settings, and the facts at the foot of the page."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gcbs_cli import __version__
from gcbs_cli.cli.inputs import command_line
from gcbs_cli.plan_file.manifest import InputsRecord, ManifestEntry, permutation_hash
from gcbs_cli.reports.page.page import flat
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.report import ReportSettings

NEIGHBOUR_ROWS = 50_000
"""Beyond so many rows only the combinations that were asked for are computed."""
TEMPERATURE_FACTORS = (0.5, 1.0, 2.0)
BATCH_SIZE_FACTORS = (0.5, 1.0, 2.0)


def with_neighbours(settings: ReportSettings, rows: int) -> ReportSettings:
    """The settings with other temperatures and batch sizes around the first, which stays first."""
    if rows > NEIGHBOUR_ROWS or len(settings.temperatures) * len(settings.batch_sizes) > 1:
        return settings
    temperature, size = settings.temperatures[0], settings.batch_sizes[0]
    temperatures = [float(f"{temperature * factor:.6g}") for factor in TEMPERATURE_FACTORS]
    sizes = [round(size * factor) for factor in BATCH_SIZE_FACTORS]
    return settings.changed(
        temperatures=list(dict.fromkeys([temperature, *(t for t in temperatures if 1e-6 <= t <= 1e6)])),
        batch_sizes=list(dict.fromkeys([size, *(k for k in sizes if 2 <= k <= rows)])),
    )


def asked_only(reports: Sequence[GapReport], settings: ReportSettings) -> list[GapReport]:
    """The reports of the combinations in `settings`, in the order of nesting that a report has without neighbours."""
    return [
        report
        for report in reports
        if report.batch_size in settings.batch_sizes and report.temperature in settings.temperatures
    ]


def page_facts(
    inputs: InputsRecord,
    settings: ReportSettings,
    perm_name: str | None,
    perm: NDArray[np.int64] | None,
    entry: ManifestEntry | None,
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Groups of what it takes to make the same page again: command, settings, inputs and plan."""
    ours = [("gcbs", __version__), ("command", " ".join(command_line()))]
    ours += [*_sides("", inputs), *_known(settings.values)]
    facts = [("This report", ours)]
    if perm is not None:
        plan = [("file", str(perm_name)), ("hash of the order", permutation_hash(perm))]
        facts.append(("Plan", plan + (_plan_facts(entry) if entry else [("manifest", "none")])))
    return facts


def _plan_facts(entry: ManifestEntry) -> list[tuple[str, str]]:
    record = entry.model_dump(mode="json", exclude={"inputs", "command", "permutation_hash"})
    sides = _sides("planned from ", entry.inputs)
    return [("command", " ".join(entry.command)), *sides, *_known(record)]


def _known(values: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in flat(values) if value != "–"]


def _sides(words: str, inputs: InputsRecord) -> list[tuple[str, str]]:
    return [
        (f"{words}{letter}", f"{side.name}, {side.rows:,} × {side.dim:,} {side.dtype}, {side.fingerprint}")
        for letter, side in zip("XY", (inputs.x, inputs.y), strict=True)
    ]
