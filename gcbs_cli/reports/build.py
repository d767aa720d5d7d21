"""Build gap reports: one pass over all pairs, then the plan's and the random trials' batches."""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.reports.basis import RowFacts, prepare
from gcbs_cli.reports.figures import FIGURES, nest
from gcbs_cli.reports.measured import Measured, Orders, measure
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.progress import Progress


def make_reports(
    pair: PairedRows,
    perm: NDArray[np.int64] | None,
    settings: ReportSettings,
    watcher: Progress | None = None,
    *,
    facts: RowFacts | None = None,
) -> list[GapReport]:
    """One report for each loss, batch size and temperature, in that order of nesting.

    `perm`: the (N,) permutation to report on; None tells what random batches leave and what the oracle could close.
    Raises BadInput for settings that do not fit the data, and before the passes where there is too little memory.
    """
    return make_detailed_reports(pair, perm, settings, watcher, facts=facts)[0]


def make_detailed_reports(
    pair: PairedRows,
    perm: NDArray[np.int64] | None,
    settings: ReportSettings,
    watcher: Progress | None = None,
    *,
    facts: RowFacts | None = None,
) -> tuple[list[GapReport], Measured]:
    """The same, and what the first of them was taken from, for a page."""
    inputs = prepare(pair, settings, watcher or Progress(), facts or RowFacts())
    measured = [
        measured
        for loss in settings.losses
        for batch_size in settings.batch_sizes
        for measured in measure(inputs, loss, batch_size, perm)
    ]
    return [report_of(one) for one in measured], measured[0]


class OrderReports:
    """Reports on one order after the other, at the first loss, batch size and temperature: one pass over all pairs and
    one set of random trials serve them all.
    """

    def __init__(
        self,
        pair: PairedRows,
        settings: ReportSettings,
        watcher: Progress | None = None,
        *,
        facts: RowFacts | None = None,
    ) -> None:
        """Make the pass. Raises BadInput for settings that do not fit the data."""
        self._inputs = prepare(pair, settings, watcher or Progress(), facts or RowFacts())
        self._orders = Orders(self._inputs, settings.losses[0], settings.batch_sizes[0])
        self._random = self._orders.random()

    def of(self, perm: NDArray[np.int64]) -> tuple[GapReport, NDArray[np.float64]]:
        """The report on an order, and the (B,) mean training losses of its batches."""
        values = self._orders.values(perm)
        return report_of(self._orders.measured(0, self._random, perm, values)), values[0].batch_losses


def report_of(measured: Measured) -> GapReport:
    """The figures of what was measured."""
    inputs = measured.inputs
    return GapReport(
        n=inputs.pair.rows,
        dim=inputs.pair.dim,
        batch_size=measured.batch_size,
        temperature=measured.temperature,
        loss_kind=measured.loss.name,
        timings=dict(inputs.clock.seconds),
        **nest({figure.path: figure.value(measured) for figure in FIGURES}),
    )
