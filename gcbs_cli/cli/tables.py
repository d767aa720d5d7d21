"""Tables and sentences for people; each fits 80 columns."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING

from gcbs_cli.cli.output import text_table
from gcbs_cli.reports.figures import Figure, shown_in
from gcbs_cli.reports.headline import headline, summary

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from gcbs_cli.comparison.compare import Compared
    from gcbs_cli.comparison.history import Epoch, History
    from gcbs_cli.comparison.trial import Gain
    from gcbs_cli.plan_file.manifest import ManifestEntry
    from gcbs_cli.reports.schema import GapReport

TRIED = ("gap.reduction", "gap.masked.reduction", "false_negatives.suspected_pairs")
"""The figures of the gap that stand beside what a plan trains."""
STEPS_SHOWN = 3
"""Of the steps that took longest."""


def figure_table(
    lines: "Iterable[tuple[Sequence[str], GapReport | Epoch]]",
    headings: Sequence[str],
    figures: Sequence[Figure],
    columns: str = "",
) -> "Table":
    """A line for each report: words about it, under `headings` and with `columns` as in `text_table`, and its figures.

    A figure that no report has is left out.
    """
    lines = list(lines)
    known = [figure for figure in figures if any(report.at(figure.path) is not None for _, report in lines)]
    cells = ([*said, *(figure.text(report.at(figure.path)) for figure in known)] for said, report in lines)
    columns = columns or "l" + "r" * (len(headings) - 1)
    return text_table(cells, [*headings, *(figure.short for figure in known)], columns + "r" * len(known))


def plan_table(entry: "ManifestEntry", output: str, seconds: float) -> "Table":
    """What `gcbs plan` did, in a few lines; the manifest has the rest."""
    full, rest = divmod(entry.rows, entry.batch_size)
    record, parts, quantile = entry.method_settings, entry.partitions, entry.quantile
    batches = f"{full:,} batches of {entry.batch_size}" + (f" and one of {rest}" if rest else "")
    lines = [("pairs", f"{entry.rows:,} × {entry.inputs.x.dim} in {batches}")]
    if entry.gather:
        lines.append(("ranks", f"{entry.world_size}: each takes a share of the rows of every batch"))
    elif entry.world_size is not None:
        each, over = divmod(full, entry.world_size)
        lines.append(("ranks", f"{entry.world_size}: {each:,} full batches each" + (f", {over} over" if over else "")))
    if parts is not None:
        lines.append(("parts", f"{parts.parts:,} of {min(parts.sizes):,} to {max(parts.sizes):,} rows"))
    method = entry.method + (f" (preset {record['preset']})" if "preset" in record else "")
    if "refinement" in record:
        done = record["refinement"]
        ended = "; stopped by --time-limit" if done["timed_out"] else ""
        method += f", {done['swaps']:,} swaps in {done['sweeps']} sweeps{ended}"
    lines.append(("method", method))
    found = entry.graph or (parts if parts is not None and parts.edges else None)
    if found is not None:
        by_quantile = entry.graph is not None and entry.graph.kind == "quantile" and entry.graph.rank_window is None
        above = f" above {quantile.threshold:.4f}" if by_quantile and quantile and quantile.threshold else ""
        lines.append(("hard pairs", f"{found.edges:,}{above}; {found.isolated / entry.rows:.1%} of the rows have none"))
        shares = entry.in_batch_edge_share or {"plan": None if parts is None else parts.in_batch_edge_share}
        inside, random = shares.get("plan"), shares.get("random")
        beside = "" if random is None else f" (random order {random:.1%})"
        lines += [] if inside is None else [("in batches", f"{inside:.1%} of them{beside}")]
    longest = sorted(entry.timings.items(), key=lambda step: -step[1])[:STEPS_SHOWN]
    steps = ", ".join(f"{name} {value:.2f}" for name, value in longest)
    lines += [("seconds", f"{seconds:.2f} ({steps})"), ("written", "stdout" if output == "-" else output)]
    return text_table(lines)


def report_tables(reports: "Sequence[GapReport]", *, full: bool = False) -> "RenderableType":
    """One report in a few lines, or `full` with a sentence a figure; several as a line each."""
    if len(reports) == 1:
        return (
            _one_report(reports[0])
            if full
            else text_table([("report", _settings_of(reports[0])), *summary(reports[0])])
        )
    lines = (((report.loss_kind, str(report.batch_size), f"{report.temperature:g}"), report) for report in reports)
    return figure_table(lines, ["loss", "k", "tau"], shown_in("many"))


def _one_report(report: "GapReport") -> "RenderableType":
    from rich.console import Group

    lines = []
    for figure in shown_in("table"):
        value, random = report.at(figure.path), report.at(figure.random) if figure.random else None
        if value is not None or random is not None:
            beside = "" if random is None else figure.text(random)
            lines.append((figure.words, figure.text(value), beside, figure.meaning))
    table = text_table(lines, ["figure", "value", "random", "what it is"], "lrrf")
    return Group(headline(report), "", table, "", _settings_of(report))


def _settings_of(report: "GapReport") -> str:
    from gcbs_cli.reports.schema import SampledReport

    rows = f"{report.n:,} pairs × {report.dim}"
    if isinstance(report, SampledReport):
        rows = f"{report.rows:,} of {report.n:,} rows, ± 95 %"
    return f"{rows}; {report.loss_kind} loss, batch size {report.batch_size}, temperature {report.temperature:g}"


def compare_table(lines: "Sequence[Compared]") -> "Table":
    """One line a method."""
    from gcbs_cli.comparison.compare import SHOWN

    table = figure_table(
        (((line.name, f"{line.seconds:.1f}"), line.report) for line in lines), ["method", "seconds"], SHOWN
    )
    said = (f"{figure.short}: {figure.meaning}" for figure in SHOWN if lines[0].report.at(figure.path) is not None)
    table.caption = "; ".join(said)
    return table


def trial_table(lines: "Sequence[Compared]", gains: "Mapping[str, Gain]", sizes: Mapping[str, float]) -> "Table":
    """One line a plan: what a model gains by it over random batches, and what its gap says."""
    said = []
    for line in lines:
        found = gains[line.name]
        seconds = mean(run.plan_seconds for run in found.runs)
        said.append(((line.name, str(found), f"{found.noise:.1f}", f"{seconds:.1f}"), line.report))
    figures = [figure for figure in shown_in("compare") if figure.path in TRIED]
    table = figure_table(said, ["plan", "MRR gain", "noise", "seconds"], figures, "frrr")
    table.caption = (
        "MRR gain: over random batches, × 100, mean ± standard deviation over seeds; noise: what a gain must exceed, by"
        f" seeds and queries; seconds: of an epoch's plan. {sizes['queries']:,} held-out queries,"
        f" {sizes['candidates']:,} candidates (random batches: MRR {sizes['random_mrr']:.1f}); {sizes['train_rows']:,}"
        f" rows to train on, {sizes['epochs']} epochs, {sizes['seeds']} seeds; {sizes['seconds']:.0f} s in all."
    )
    return table


def history_table(history: "History") -> "RenderableType":
    """The verdict and a line for each epoch; the page has their courses."""
    from rich.console import Group

    from gcbs_cli.comparison.history import SHOWN

    table = figure_table((((epoch.name,), epoch) for epoch in history.epochs), ["epoch"], SHOWN)
    first = history.epochs[0].report
    settings = f"{first.n:,} pairs, batch size {first.batch_size}, temperature {first.temperature:g}"
    return Group(history.verdict, "", table, "", f"{settings}; losses in {first.unit}")
