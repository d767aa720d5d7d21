"""Build gap reports: one pass over all pairs, then the plan's and the random trials' batches."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.reports.basis import Basis, prepare
from gcbs_cli.reports.details import ReportDetails, mean_by_batch, order_details, suspect_examples
from gcbs_cli.reports.figures import reports_of
from gcbs_cli.reports.losses import row_losses
from gcbs_cli.reports.measured import Measured, measure, refuse_differences
from gcbs_cli.reports.orders import TRIALS_STREAM, order_figures, sums_of
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.arrays import inverse
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress


def make_reports(
    pair: PairedRows,
    perm: NDArray[np.int64] | None,
    settings: ReportSettings,
    watcher: Progress | None = None,
) -> list[GapReport]:
    """One report for each loss, batch size and temperature, in that order of nesting.

    `perm`: the (N,) permutation to report on; None tells what random batches leave and what the oracle could close.
    Raises BadInput for settings that do not fit the data, and before the passes where there is too little memory.
    """
    return _all_reports(pair, perm, settings, watcher)[0]


class OrderReports:
    """Reports on one order after the other, at the first loss, batch size and temperature: one pass over all pairs and
    one set of random trials serve them all.
    """

    def __init__(self, pair: PairedRows, settings: ReportSettings, watcher: Progress | None = None) -> None:
        """Make the pass. Raises BadInput for settings that do not fit the data."""
        settings.check(pair.rows)
        self._basis = prepare(pair, settings, watcher or Progress())
        self._random = measure(self._basis, None, settings.losses[0], settings.batch_sizes[0])

    def of(self, perm: NDArray[np.int64]) -> tuple[GapReport, NDArray[np.float64]]:
        """The report on an order, and the (B,) mean training losses of its batches."""
        basis, loss, size = self._basis, self._random.loss, self._random.batch_size
        keys = self._random.keys
        measured = replace(self._random, plan=order_figures(basis, keys, loss, size, perm))
        sums = sums_of(basis, loss, size, perm)
        by_place = row_losses(loss, keys[0], sums, 0, basis.settings.temperatures[0], perm)
        return reports_of(basis, measured)[0], mean_by_batch(by_place, size)


def make_detailed_reports(
    pair: PairedRows,
    perm: NDArray[np.int64] | None,
    settings: ReportSettings,
    watcher: Progress | None = None,
) -> tuple[list[GapReport], ReportDetails]:
    """The same, and what a page shows beyond the figures of the first combination."""
    reports, basis, first = _all_reports(pair, perm, settings, watcher)
    return reports, _details(basis, first, perm)


def _all_reports(
    pair: PairedRows,
    perm: NDArray[np.int64] | None,
    settings: ReportSettings,
    watcher: Progress | None,
) -> tuple[list[GapReport], Basis, Measured]:
    settings.check(pair.rows)
    if settings.verify and perm is None:
        raise BadInput("--verify: it is a plan's gap that is computed once more; name the plan with -p")
    basis = prepare(pair, settings, watcher or Progress())
    if settings.parts is not None and settings.parts.one_graph is not None:
        with basis.clock.step("one graph"):
            basis.one_graph = make_plan(pair, settings.parts.one_graph).perm
    reports: list[GapReport] = []
    first = None
    for loss in settings.losses:
        for batch_size in settings.batch_sizes:
            measured = measure(basis, perm, loss, batch_size)
            first = first or measured
            reports += reports_of(basis, measured)
    assert first is not None
    if settings.verify:
        refuse_differences(basis, reports)
    return reports, basis, first


def _details(basis: Basis, measured: Measured, perm: NDArray[np.int64] | None) -> ReportDetails:
    pair, size = basis.pair, measured.batch_size
    rows = np.arange(pair.rows)
    random = np.random.default_rng([basis.settings.seed, TRIALS_STREAM, 0]).permutation(pair.rows)
    losses, suspects = None, None
    if perm is not None:
        temperature = basis.settings.temperatures[0]
        sums = sums_of(basis, measured.loss, size, perm)
        losses = mean_by_batch(row_losses(measured.loss, measured.keys[0], sums, 0, temperature, perm), size)
        suspects = measured.plan.suspects if measured.plan else None
    return ReportDetails(
        trial_losses=np.array([trial.values[0].train_loss for trial in measured.random]),
        identity=order_details(pair, basis.graph, rows, size),
        random=order_details(pair, basis.graph, random, size),
        plan=None if perm is None else order_details(pair, basis.graph, perm, size),
        perm=perm,
        batch_losses=losses,
        suspects=suspect_examples(pair, suspects, basis.diagonal, inverse(perm) // size)
        if suspects is not None and perm is not None
        else [],
    )
