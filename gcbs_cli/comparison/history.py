"""Reports of several epochs side by side, and what they say about planning again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gcbs_cli.data.files import list_files, natural_key, open_file, shown
from gcbs_cli.plan_file.permutation import SUFFIXES
from gcbs_cli.plan_file.plans import load_plan
from gcbs_cli.plan_file.writing import MANIFEST_END
from gcbs_cli.reports.figures import shown_in
from gcbs_cli.reports.schema import Figure, GapReport, ReportPart
from gcbs_cli.system.arrays import Ints, inverse
from gcbs_cli.system.errors import BadInput

LEAST_SHARE_OF_BEST = 0.25
"""A plan pays if it closes more than this share of what the best one closes, …"""
LEAST_NATS = 0.01
"""… more than this, …"""
NOISE = 3.0
"""… and more than this number of standard deviations of the random orders."""
SAME_PLAN = 0.9
"""Share of recurring pairs from which the previous plan would have done."""
OWN_FIGURES = [
    Figure("pairs that recur", "{:.0%}", heading="recur", path="recurring"),
    Figure("seconds", "{:.1f}", heading="plan s", path="plan_seconds"),
]
SHOWN = [*shown_in("history"), *OWN_FIGURES]
"""The figures of the table."""


class Epoch(ReportPart):
    """One epoch; None for figures that are not known.

    closed: how much of the gap the plan closes without suspected false negatives, in nats. recurring:
    share of the previous plan's in-batch pairs that share a batch again. plan_seconds: from the manifest.
    """

    name: str
    report: GapReport
    closed: float | None = None
    recurring: float | None = None
    plan_seconds: float | None = None

    def at(self, path: str) -> Any:
        """The value of a figure of the report, or of one that only a history has."""
        return getattr(self, path) if path in type(self).model_fields else self.report.at(path)

    def pays(self, best: float) -> bool:
        """Whether its plan closes enough, where the best one closes `best` nats."""
        spread = self.report.gap.masked.random_std or self.report.gap.random_std or 0.0
        return self.closed is not None and self.closed > max(LEAST_SHARE_OF_BEST * best, LEAST_NATS, NOISE * spread)


class History(ReportPart):
    """All epochs. pays_until: the last epoch whose plan paid, None if none did; verdict: a sentence that says so."""

    epochs: list[Epoch]
    pays_until: str | None = None
    verdict: str


def read_history(paths: Sequence[str], plans: str | None = None) -> History:
    """Read the reports in natural order (epoch-2 before epoch-10) and compare them.

    Of a folder, its .json files are read; manifests are passed over. `plans`: a pattern of the plans, in the same
    order; without it the plan of `epoch-2.json` is `epoch-2.npy` or `.parquet` beside it, where that exists.
    Raises BadInput for what is no report, where reports and plans do not belong together, and where batch sizes,
    temperatures or losses differ.
    """
    files = [file for path in paths for file in list_files(path)]
    reports = (file for file in files if file.endswith(".json") and not file.endswith(MANIFEST_END))
    paths = sorted(reports, key=natural_key)
    if not paths:
        raise BadInput("found no report, expected files that gcbs report -o or gcbs plan --report wrote")
    epochs: list[Epoch] = []
    previous = None
    for path, plan_path in zip(paths, _plans(paths, plans), strict=True):
        report = _read_report(path)
        before = epochs[-1].report if epochs else report
        for figure in ("batch_size", "temperature", "loss_kind"):
            if report.at(figure) != before.at(figure):
                raise BadInput(
                    f"{shown(path)}: found {figure.replace('_', ' ')} {report.at(figure)}, expected "
                    f"{before.at(figure)} as in {shown(paths[0])}; give reports with the same settings"
                )
        perm = manifest = None
        if plan_path is not None:
            plan = load_plan(plan_path, report.n)
            perm = plan.perm
            manifest = plan.manifest
        gap = report.gap.masked
        epochs.append(
            Epoch(
                name=Path(path).stem,
                report=report,
                closed=None if gap.plan is None else gap.random_mean - gap.plan,
                recurring=recurring_pairs(previous, perm, report.batch_size),
                plan_seconds=None if manifest is None else sum(manifest.timings.values()),
            )
        )
        previous = perm
    pays_until, verdict = _verdict(epochs)
    return History(epochs=epochs, pays_until=pays_until, verdict=verdict)


def _plans(reports: Sequence[str], pattern: str | None) -> Sequence[str | None]:
    """The plan of each report, None where there is none."""
    if pattern is None:
        candidates = [[Path(report).with_suffix(suffix) for suffix in SUFFIXES] for report in reports]
        return [next((str(plan) for plan in plans if plan.is_file()), None) for plans in candidates]
    plans = [path for path in list_files(pattern) if not path.endswith(MANIFEST_END)]
    if len(plans) != len(reports):
        raise BadInput(f"--plans {shown(pattern)}: found {len(plans)} plans, expected {len(reports)}, one a report")
    return plans


def _read_report(path: str) -> GapReport:
    with open_file(path) as file:
        data = file.read()
    try:
        return GapReport.model_validate_json(data)
    except ValueError as error:  # intervals of a sample, too: they do not tell how epochs differ, and are no numbers
        raise BadInput(
            f"{shown(path)}: found no single report on all rows, expected what gcbs report -o wrote for one loss, "
            "temperature and batch size"
        ) from error


def recurring_pairs(old: Ints | None, new: Ints | None, batch_size: int) -> float | None:
    """Share of the pairs in batches of `old` that share a batch of `new` too; None unless both have as many rows."""
    if old is None or new is None or len(old) != len(new):
        return None
    batches = np.arange(len(old)) // batch_size
    together = batches * len(old) + inverse(new)[old] // batch_size
    sizes, common = (np.unique_counts(labels).counts for labels in (batches, together))
    return float((common * (common - 1)).sum() / (sizes * (sizes - 1)).sum())


def _verdict(epochs: Sequence[Epoch]) -> tuple[str | None, str]:
    """The last epoch whose plan paid, and a sentence."""
    best = max((epoch.closed for epoch in epochs if epoch.closed is not None), default=None)
    if best is None:
        return None, "These reports are not about plans; name the plan with gcbs report -p."
    paying = [number for number, epoch in enumerate(epochs) if epoch.pays(best)]
    if not paying:
        return None, (
            "Planning does not pay here: without suspected false negatives, no plan beats random batches by more than "
            "their spread."
        )
    last = epochs[-1]
    closed = last.closed or 0.0
    following = paying[-1] + 1
    name = epochs[paying[-1]].name
    if following < len(epochs):
        return name, (
            f"Planning has stopped paying: since {epochs[following].name}, plans hardly beat random batches. The "
            f"last one closes {closed:.3f} nats of the gap without suspected false negatives, the best {best:.3f}."
        )
    verdict = (
        f"Planning still pays: the last plan closes {closed:.3f} nats of the gap without suspected false negatives."
    )
    if last.recurring is not None and last.recurring >= SAME_PLAN:
        verdict += (
            f" But the plans hardly change: {last.recurring:.0%} of the pairs that shared a batch share one again. "
            "Planning every second epoch would do."
        )
    return name, verdict
