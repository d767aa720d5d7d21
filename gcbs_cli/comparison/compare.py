"""Make a plan with each method and report on all of them: two passes over all pairs, however many methods."""

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
from gcbs_cli.reports.figures import nest, shown_in
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.report import report_on
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress

REFINED = "+refine"
NEEDS_TEXT = "words"


@dataclass(frozen=True)
class Compared:
    """What a plan is worth."""

    method: str
    seconds: float
    """Those after the pass over all pairs."""
    report: GapReport
    losses_std: float
    """Standard deviation of the losses of full batches, in nats."""
    recurring: float | None = None
    """Share of its in-batch pairs that come again with the next seed, where that was asked for."""

    def as_record(self) -> dict[str, Any]:
        """For JSON: the figures have the same places as in a report."""
        figures = nest({figure.path: self.report.at(figure.path) for figure in shown_in("compare")})
        more = {"batch_losses_std": self.losses_std, "recurring": self.recurring}
        return {"method": self.method, "seconds": self.seconds, **figures, **more}


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
        longest_list: int,
        trials: int,
        recurrence: bool = False,
        groups: NDArray[np.int64] | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        """Make both passes; `recurrence`: also for plans with the next seed.

        Suspected pairs are counted by the settings' margin, or the usual one. Raises BadInput.
        """
        self.rows, self.progress = rows, progress
        self._groups, self._inputs = groups, inputs
        progress.step("pass for the plans")
        seeds = (settings.seed, settings.seed + 1) if recurrence else (settings.seed,)
        self._found = find_pairs(rows, settings, longest_list, progress, seeds)
        progress.step("pass for the reports")
        asked = report_on(settings, self._found[settings.seed].threshold.similarity).changed(trials=trials)
        data = ReportInputs(rows, asked, progress, RowFacts(groups=groups))
        self._reports = OrderReports(data, asked.losses[0], settings.batch_size)

    def plan(self, settings: PlanSettings) -> NDArray[np.int64]:
        """(N,) the permutation that `gcbs plan` makes with these settings."""
        return make_plan(
            self.rows, settings, groups=self._groups, inputs=self._inputs, found=self._found[settings.seed]
        ).perm

    def compared(self, name: str, settings: PlanSettings, *, recurrence: bool = False) -> Compared:
        """What the plan with these settings is worth; `recurrence`: plan once more with the next seed."""
        self.progress.step(name)
        began = time.perf_counter()
        perm = self.plan(settings)
        seconds = time.perf_counter() - began
        measured = self._reports.of(perm)[0]
        recurring = None
        if recurrence:
            again = self.plan(settings.changed(seed=settings.seed + 1))
            recurring = recurring_pairs(perm, again, settings.batch_size)
        full = measured.batch_losses[: len(perm) // settings.batch_size]
        return Compared(name, seconds, measured.report, float(np.std(full)), recurring)


def compare_methods(
    pair: PairedRows,
    settings: PlanSettings,
    methods: Sequence[str],
    watcher: Progress,
    *,
    trials: int,
    recurrence: bool = False,
    groups: NDArray[np.int64] | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> list[Compared]:
    """One line a method; `rcm+refine` is rcm refined. `settings`: all else that the plans are asked for.

    `recurrence`: plan once more with the next seed; `groups`, `inputs`: as in `make_plan`. Raises BadInput.
    """
    settings.check_methods(plain_names(methods))
    longest = lists_wanted(settings)
    comparison = Comparison(
        pair,
        settings,
        watcher,
        longest_list=longest,
        trials=trials,
        recurrence=recurrence,
        groups=groups,
        inputs=inputs,
    )
    lines = []
    for method in methods:
        name = method.removesuffix(REFINED)
        asked = settings.changed(method=name, refine=settings.refine or method != name)
        lines.append(comparison.compared(method, asked, recurrence=recurrence))
    return lines
