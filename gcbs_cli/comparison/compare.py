"""Make several plans of the same data and report on them: two passes over all pairs, however many plans."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.orders import METHODS
from gcbs_cli.planning.plan import find_edges, make_plan
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.reports.basis import ReportInputs, RowFacts
from gcbs_cli.reports.figures import shown_in
from gcbs_cli.reports.losses import OrderReports
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.model import leaves, words
from gcbs_cli.settings.others import REFINED
from gcbs_cli.settings.plan import PRESET, PlanSettings
from gcbs_cli.settings.report import report_on
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput, nearest
from gcbs_cli.system.progress import Progress, Stopwatch

LEARNABLE = "learnable_share.plan"
SHOWN = sorted(shown_in("compare"), key=lambda figure: figure.path != LEARNABLE)
"""The figures of the table, first the one that sorts it."""
NEEDS_TEXT = "words"
"""The method that needs the rows' texts."""
RANDOM = "random"
"""The plan that others are compared with."""
PRESET_ROW = f"--preset {PRESET}"
"""The preset's name in a table; in a list of methods it is that of the preset alone."""
AROUND = {"fn_margin": (0.95,), "top": (16, 48)}
"""Other values of the preset's options."""


@dataclass(frozen=True)
class Compared:
    """The worth of a plan with these settings; seconds: those after the pass over all pairs."""

    name: str
    settings: PlanSettings
    seconds: float
    report: GapReport

    @property
    def learnable(self) -> float:
        """The learnable share of its batches."""
        return self.report.at(LEARNABLE) or 0.0

    def as_record(self) -> dict[str, Any]:
        """For JSON: the figures have the same places as in a report."""
        record = {"method": self.name, "options": " ".join(options_of(self.settings)), "seconds": self.seconds}
        return record | self.report.model_dump(mode="json")


def options_of(settings: PlanSettings) -> list[str]:
    """The words after `gcbs plan X Y` for these settings, without those that have no effect on this plan."""
    idle = (leaf for leaf in leaves(PlanSettings) if settings.lacking(leaf))
    used = settings.changed(**{leaf.name: settings.default_of(leaf) for leaf in idle})
    always = ["batch_size", "temperature"]
    if not settings.preset:
        always.append("method")
    return words(used, always=always)


def settings_of(name: str, shared: PlanSettings) -> PlanSettings:
    """The settings of a row of the table: a method, `rcm+refine` for rcm refined, or the preset. Raises BadInput."""
    if name == PRESET_ROW:
        return shared.changed(preset=PRESET)
    method = name.removesuffix(REFINED)
    if method not in METHODS:
        raise BadInput(f"--methods {method}: expected {', '.join(METHODS)}{nearest(method, METHODS)}")
    return shared.changed(method=method, refine=shared.refine or method != name)


def settings_around(preset: PlanSettings) -> dict[str, PlanSettings]:
    """The preset with another value of one option, by what is typed for it."""
    around: dict[str, tuple[float, ...]] = dict(AROUND)
    if preset.batch_size % 2 == 0:
        around["group_size"] = (preset.batch_size // 2,)
    plans = {}
    for option, values in around.items():
        for value in values:
            name = f"{PRESET_ROW} --{option.replace('_', '-')} {value}"
            plans[name] = preset.changed(**{option: value})
    return plans


def compare_plans(
    pairs: PairedRows,
    plans: Mapping[str, PlanSettings],
    shared: PlanSettings,
    progress: Progress,
    *,
    trials: int,
    groups: Ints | None,
    texts: Sequence[str] | None,
) -> list[Compared]:
    """The worth of each plan, with one pass for all plans and one for all reports.

    plans: settings by name; shared: what they have in common; trials: random orders to compare with; groups, texts: as
    in `make_plan`. Suspected pairs are counted by the shared margin, or the usual one. Raises BadInput.
    """
    shared.check_rows(pairs.rows)
    backend = choose_backend(shared.device, shared.chunk_rows)
    edges = find_edges(pairs, [*plans.values()], backend, Stopwatch(progress), "use fewer rows")
    progress.step("pass for the reports")
    report_settings = report_on(shared, edges.threshold.similarity).changed(trials=trials)
    reports = OrderReports(
        ReportInputs(pairs, report_settings, progress, RowFacts(groups=groups)),
        report_settings.losses[0],
        shared.batch_size,
    )
    comparisons = []
    for name, settings in plans.items():
        progress.step(name)
        start = time.perf_counter()
        perm = make_plan(pairs, settings, groups=groups, texts=texts, edges=edges).perm
        seconds = time.perf_counter() - start
        comparisons.append(Compared(name, settings, seconds, reports.of(perm)[0].report))
    return comparisons
