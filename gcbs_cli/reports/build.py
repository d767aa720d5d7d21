"""Build gap reports: one pass over all pairs, then the plan's and the random trials' batches."""

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.reports.basis import ReportInputs, RowFacts
from gcbs_cli.reports.bsc import BscReports
from gcbs_cli.reports.losses import Measured, OrderReports, TripletReports
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.progress import Progress

OF_LOSS: dict[str, type[OrderReports]] = {"bsc": BscReports, "triplet": TripletReports}


def make_reports(
    pair: PairedRows,
    perm: Ints | None,
    settings: ReportSettings,
    watcher: Progress | None = None,
    *,
    facts: RowFacts | None = None,
) -> list[GapReport]:
    """One report for each loss, batch size and temperature, in that order of nesting.

    `perm`: the (N,) permutation to report on; None tells what random batches leave and what the oracle could close.
    Raises BadInput for settings that do not fit the data, and before the passes where there is too little memory.
    """
    return [measured.report for measured in measure(ReportInputs(pair, settings, watcher, facts), perm)]


def measure(inputs: ReportInputs, perm: Ints | None) -> list[Measured]:
    """The same, and what the reports were taken from, for a page."""
    return [
        measured
        for loss in inputs.settings.losses
        for batch_size in inputs.settings.batch_sizes
        for measured in OF_LOSS.get(loss.kind, OrderReports)(inputs, loss, batch_size).of(perm)
    ]
