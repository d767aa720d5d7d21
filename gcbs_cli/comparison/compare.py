"""Make several plans of the same data and report on them: two passes over all pairs, however many plans."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.comparison.history import recurring_pairs
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.hard_pairs import lists_wanted
from gcbs_cli.orders import PLANNERS, planner_named
from gcbs_cli.planning.plan import find_pairs, make_plan
from gcbs_cli.reports.basis import ReportInputs, RowFacts
from gcbs_cli.reports.build import OrderReports
from gcbs_cli.reports.figures import Figure, nest, shown_in
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.model import words
from gcbs_cli.settings.others import REFINED
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.report import report_on
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress

SHOWN = [
    *shown_in("compare"),
    Figure("batch_losses_std", "spread", "standard deviation of the batches' losses, nats", "{:.2f}"),
    Figure("recurring", "recur", "share of the in-batch pairs that come again with the next seed", "{:.1%}"),
]
"""The figures of the table."""
NEEDS_TEXT = "words"


@dataclass(frozen=True)
class Compared:
    """What a plan with these settings is worth."""

    settings: PlanSettings
    seconds: float
    """Those after the pass over all pairs."""
    report: GapReport
    batch_losses_std: float
    """Standard deviation of the losses of full batches, in nats."""
    recurring: float | None
    """Share of its in-batch pairs that come again with the next seed, where that was asked for."""

    @property
    def method(self) -> str:
        """The method, and whether its plan is refined."""
        return self.settings.method + REFINED * self.settings.refine

    @property
    def suspected(self) -> int:
        """Suspected pairs that share a batch."""
        return int(self.report.at("false_negatives.suspected_pairs") or 0)

    def at(self, path: str) -> Any:
        """The value of a figure of the report, or of one that only a comparison has."""
        return getattr(self, path) if path in ("batch_losses_std", "recurring") else self.report.at(path)

    def options(self) -> list[str]:
        """The words after `gcbs plan X Y` that make this plan."""
        used = self.settings if self.settings.refine else self.settings.changed(time_limit=None)
        return words(used, always=("method", "batch_size", "temperature"))

    def as_record(self) -> dict[str, Any]:
        """For JSON: the figures have the same places as in a report."""
        figures = nest({figure.path: self.at(figure.path) for figure in SHOWN})
        return {"method": self.method, "seconds": self.seconds, **figures}


def default_methods(*, texts: bool = False) -> list[str]:
    """Every method that is installed, and the graph methods refined; those that need `texts` where there are some."""
    missing = not_installed()
    found = [name for name in PLANNERS if name not in missing and (texts or name != NEEDS_TEXT)]
    return found + [name + REFINED for name in ("rcm", "metis") if name in found]


def not_installed() -> dict[str, str]:
    """The methods that cannot be used here, each with what to install."""
    found = {}
    for name, planner in PLANNERS.items():
        try:
            planner.check()
        except BadInput as error:
            found[name] = str(error)
    return found


def plain_names(methods: Sequence[str]) -> list[str]:
    """The methods by themselves, each once. Raises BadInput for one that does not exist or is not installed."""
    names = list(dict.fromkeys(method.removesuffix(REFINED) for method in methods))
    for name in names:
        planner_named(name).check()
    return names


class Comparison:
    """Makes plans of the same data and reports on them, with one pass for all plans and one for all reports."""

    def __init__(
        self,
        rows: PairedRows,
        settings: PlanSettings,
        progress: Progress,
        *,
        trials: int,
        longest_list: int = 0,
        recurrence: bool = False,
        groups: NDArray[np.int64] | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        """Make both passes.

        settings: what all plans share; longest_list: the longest of the hardest that any of them needs; trials: random
        orders to compare with; recurrence: plan each once more with the next seed; groups, inputs: as in `make_plan`.
        Suspected pairs are counted by the settings' margin, or the usual one. Raises BadInput.
        """
        self.settings, self._rows, self._progress, self._recurrence = settings, rows, progress, recurrence
        self._given: dict[str, Any] = {"groups": groups, "inputs": inputs}
        progress.step("pass for the plans")
        seeds = range(settings.seed, settings.seed + 1 + recurrence)
        self._found = find_pairs(rows, settings, max(longest_list, lists_wanted(settings)), progress, seeds)
        progress.step("pass for the reports")
        asked = report_on(settings, self._found[settings.seed].threshold.similarity).changed(trials=trials)
        data = ReportInputs(rows, asked, progress, RowFacts(groups=groups))
        self._reports = OrderReports(data, asked.losses[0], settings.batch_size)

    def of_method(self, name: str) -> Compared:
        """What the plan of a method is worth; `rcm+refine` is rcm refined."""
        method = name.removesuffix(REFINED)
        return self.of(self.settings.changed(method=method, refine=self.settings.refine or method != name))

    def of(self, settings: PlanSettings) -> Compared:
        """What the plan that `gcbs plan` makes with these settings is worth."""
        began = time.perf_counter()
        perm = self._plan(settings)
        seconds = time.perf_counter() - began
        measured = self._reports.of(perm)[0]
        full = measured.batch_losses[: len(perm) // settings.batch_size]
        again = self._plan(settings.changed(seed=settings.seed + 1)) if self._recurrence else None
        recurring = recurring_pairs(perm, again, settings.batch_size)
        return Compared(settings, seconds, measured.report, float(np.std(full)), recurring)

    def _plan(self, settings: PlanSettings) -> NDArray[np.int64]:
        self._progress.step(settings.method)
        return make_plan(self._rows, settings, found=self._found[settings.seed], **self._given).perm
