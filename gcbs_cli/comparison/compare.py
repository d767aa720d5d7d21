"""Make a plan with each method and report on all of them: two passes over all pairs, however many methods."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.comparison.history.build import recurring_pairs
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.hard_pairs import lists_wanted
from gcbs_cli.orders import PLANNERS, planner_named
from gcbs_cli.planning.plan import FoundPairs, find_pairs, make_plan
from gcbs_cli.reports.build import OrderReports
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.plan import DEFAULT_MARGIN, GraphSettings, PlanSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress

REFINED = "+refine"
NEEDS_TEXT = "words"


@dataclass(frozen=True)
class Compared:
    """One method. `seconds`: after the pass over all pairs; `batch_losses_std`: nats, over full batches;
    `recurring`: share of its in-batch pairs that recur with the next seed, where that was asked for.
    """

    method: str
    seconds: float
    gap_reduction: float | None
    closed_share: float | None
    masked_reduction: float | None
    in_batch_edge_share: float | None
    suspected_pairs: int
    batch_losses_std: float
    recurring: float | None

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


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


def compare_methods(
    pair: PairedRows,
    settings: PlanSettings,
    methods: Sequence[str],
    watcher: Progress,
    *,
    trials: int,
    recurrence: bool = False,
    groups: NDArray[np.int64] | None = None,
    method_inputs: Mapping[str, Any] | None = None,
) -> list[Compared]:
    """One line a method; `rcm+refine` is rcm refined. `settings`: all else that the plans are asked for.

    `recurrence`: plan once more with the next seed; `groups`, `method_inputs`: as in `make_plan`. Raises BadInput.
    """
    settings.bsc.check_methods(plain_names(methods))
    watcher.step("pass for the plans")
    found = find_pairs(pair, settings, lists_wanted(settings), watcher)
    reports = order_reports(pair, settings, found, trials, watcher, groups=groups)
    lines = []
    for method in methods:
        watcher.step(method)
        asked = settings_of(method, settings)
        began = time.perf_counter()
        perm = make_plan(pair, asked, groups=groups, method_inputs=method_inputs, found=found).perm
        seconds = time.perf_counter() - began
        recurring = None
        if recurrence:
            other = asked.changed(seed=asked.seed + 1)
            again = make_plan(pair, other, groups=groups, method_inputs=method_inputs, found=found).perm
            recurring = recurring_pairs(perm, again, settings.batch_size)
        lines.append(compared(method, seconds, *reports.of(perm), recurring=recurring))
    return lines


def settings_of(method: str, settings: PlanSettings) -> PlanSettings:
    """The settings with the method, and refined where its name says so."""
    name = method.removesuffix(REFINED)
    return settings.changed(method=name, refine=settings.refine or method != name)


def order_reports(
    pair: PairedRows,
    settings: PlanSettings,
    found: FoundPairs,
    trials: int,
    watcher: Progress,
    *,
    groups: NDArray[np.int64] | None = None,
) -> OrderReports:
    """Reports at the settings' batch size and temperature; suspected pairs by their margin, or the usual one."""
    false = settings.false_negatives
    watcher.step("pass for the reports")
    return OrderReports(
        pair,
        ReportSettings(
            batch_sizes=[settings.batch_size],
            temperatures=[settings.temperature],
            graph=GraphSettings(threshold=found.threshold.value),
            trials=trials,
            seed=settings.seed,
            fn_margin=DEFAULT_MARGIN if false.fn_margin is None else false.fn_margin,
            groups=groups,
            drop_last=settings.drop_last,
            device=settings.work.device,
            tile_rows=settings.work.chunk_rows,
        ),
        watcher,
    )


def compared(
    method: str, seconds: float, report: GapReport, losses: NDArray[np.float64], *, recurring: float | None = None
) -> Compared:
    """A line of the table from a report."""
    full, false = losses[: report.n // report.batch_size], report.false_negatives
    return Compared(
        method=method,
        seconds=seconds,
        gap_reduction=report.gap.reduction,
        closed_share=report.gap.closed_share,
        masked_reduction=report.gap.masked.reduction,
        in_batch_edge_share=report.in_batch_edge_share.plan,
        suspected_pairs=false.suspected_pairs or 0,
        batch_losses_std=float(np.std(full)),
        recurring=recurring,
    )
