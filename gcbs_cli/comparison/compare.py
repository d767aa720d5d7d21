"""Make a plan with each method and report on all of them: two passes over all pairs, however many methods."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.errors import BadInput
from gcbs_cli.history.build import recurring_pairs
from gcbs_cli.planners import PLANNERS, planner_named
from gcbs_cli.planning import FoundPairs, find_pairs, make_plan
from gcbs_cli.progress import Watcher
from gcbs_cli.reports.build import OrderReports, ReportSettings
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings import DEFAULT_MARGIN, GraphSettings, PlanSettings
from gcbs_cli.similarity.canonical_values import UnitPair

REFINED = "+refine"
NEEDS_TEXT = "words"


@dataclass(frozen=True)
class Compared:
    """One method. `seconds`: after the pass over all pairs; `batch_losses_std`: nats, over full batches; `recurring`:
    share of its in-batch pairs that recur with the next seed, where that was asked for.
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


def default_methods() -> list[str]:
    """Every method that is installed and needs no texts, and the graph methods refined."""
    found = []
    for name, planner in PLANNERS.items():
        try:
            planner.check()
        except BadInput:
            continue
        if name != NEEDS_TEXT:
            found.append(name)
    return found + [name + REFINED for name in ("rcm", "metis") if name in found]


def check_methods(methods: Sequence[str]) -> None:
    """Raises BadInput for a method that does not exist, is not installed or needs texts."""
    for method in methods:
        name = method.removesuffix(REFINED)
        planner_named(name).check()
        if name == NEEDS_TEXT:
            raise BadInput("--methods words: needs texts; use gcbs plan --method words --text and gcbs report")


def compare_methods(
    pair: UnitPair,
    settings: PlanSettings,
    methods: Sequence[str],
    watcher: Watcher,
    *,
    trials: int,
    recurrence: bool = False,
) -> list[Compared]:
    """One line a method; `rcm+refine` is rcm refined. `settings`: all else that the plans are asked for.

    `recurrence`: plan once more with the next seed. Raises BadInput.
    """
    check_methods(methods)
    watcher.step("pass for the plans")
    found = find_pairs(pair, settings, settings.graph.top, watcher)
    reports = order_reports(pair, settings, found, trials, watcher)
    lines = []
    for method in methods:
        watcher.step(method)
        asked = settings_of(method, settings)
        began = time.perf_counter()
        perm = make_plan(pair, asked, found=found).perm
        seconds = time.perf_counter() - began
        recurring = None
        if recurrence:
            again = make_plan(pair, replace(asked, seed=asked.seed + 1), found=found).perm
            recurring = recurring_pairs(perm, again, settings.batch_size)
        lines.append(compared(method, seconds, *reports.of(perm), recurring=recurring))
    return lines


def settings_of(method: str, settings: PlanSettings) -> PlanSettings:
    """The settings with the method, and refined where its name says so."""
    name = method.removesuffix(REFINED)
    return replace(settings, method=name, refine=settings.refine or method != name)


def order_reports(
    pair: UnitPair, settings: PlanSettings, found: FoundPairs, trials: int, watcher: Watcher
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
            fn_margin=DEFAULT_MARGIN if false.margin is None else false.margin,
            fn_absolute=false.absolute,
            drop_last=settings.drop_last,
            device=settings.device,
            tile_rows=settings.tile_rows,
        ),
        watcher,
    )


def compared(
    method: str, seconds: float, report: GapReport, losses: NDArray[np.float64], *, recurring: float | None = None
) -> Compared:
    """A line of the table from a report."""
    full = losses[: report.n // report.batch_size]
    return Compared(
        method=method,
        seconds=seconds,
        gap_reduction=report.gap.reduction,
        closed_share=report.gap.closed_share,
        masked_reduction=report.gap.masked.reduction,
        in_batch_edge_share=report.in_batch_edge_share.plan,
        suspected_pairs=report.false_negatives.suspected_pairs or 0,
        batch_losses_std=float(np.std(full)),
        recurring=recurring,
    )
