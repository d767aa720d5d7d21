"""Tables and sentences for people; each fits 80 columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gcbs_cli.reports.figures import shown_in
from gcbs_cli.reports.headline import headline
from gcbs_cli.reports.schema import SampledReport
from gcbs_cli.system.limits import show_size

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from gcbs_cli.plan_file.manifest import GraphRecord, ManifestEntry, PartitionsRecord, QuantileRecord
    from gcbs_cli.planning.room import Forecast
    from gcbs_cli.products.threshold import Threshold
    from gcbs_cli.reports.schema import GapReport


def plan_table(entry: "ManifestEntry", output: str, seconds: float) -> "RenderableType":
    """What `gcbs plan` did, one line a figure."""
    full, rest = divmod(entry.rows, entry.batch_size)
    lines = [
        ("pairs", f"{entry.rows:,} × {entry.inputs.x.dim}"),
        ("batches", f"{full:,} of {entry.batch_size}" + (f" and one of {rest}" if rest else "")),
    ]
    if entry.world_size is not None:
        lines.append(("ranks", _ranks(entry, entry.world_size)))
    lines.append(("method", entry.method))
    if entry.partitions is not None:
        lines += _part_lines(entry, entry.partitions)
    elif entry.quantile is not None and entry.graph is not None:
        lines += _graph_lines(entry, entry.quantile, entry.graph)
    record = entry.method_settings
    if "refinement" in record:
        done = record["refinement"]
        ended = "; stopped by --time-limit" if done["timed_out"] else ""
        lines.append(("refinement", f"{done['swaps']:,} swaps in {done['sweeps']} sweeps{ended}"))
    suspected = record.get("false_negatives", {}).get("suspected_inside")
    if suspected is not None:
        lines.append(("suspected pairs", f"{suspected:,} inside batches"))
    steps = ", ".join(f"{name} {value:.2f}" for name, value in entry.timings.items())
    lines += [("seconds", f"{seconds:.2f} ({steps})"), ("written", "stdout" if output == "-" else output)]
    return two_columns(lines)


def _ranks(entry: "ManifestEntry", world_size: int) -> str:
    if entry.gather:
        return f"{world_size}: each takes {entry.batch_size // world_size} rows of every batch"
    each, over = divmod(entry.rows // entry.batch_size, world_size)
    return f"{world_size}: {each:,} full batches each" + (f", {over} over" if over else "")


def _edge_lines(entry: "ManifestEntry", graph: "GraphRecord | PartitionsRecord") -> list[tuple[str, str]]:
    return [
        ("edges", f"{graph.edges:,}"),
        ("rows without an edge", f"{graph.isolated:,} ({graph.isolated / entry.rows:.1%})"),
        ("largest degree", f"{graph.max_degree:,}"),
    ]


def _part_lines(entry: "ManifestEntry", parts: "PartitionsRecord") -> list[tuple[str, str]]:
    lines = [
        ("parts", f"{parts.parts:,} of {min(parts.sizes):,} to {max(parts.sizes):,} rows"),
        ("rows moved", f"{parts.moved:,}, so that parts are whole batches"),
    ]
    if parts.thresholds:
        lines.append(("thresholds", f"{min(parts.thresholds):.4f} to {max(parts.thresholds):.4f}"))
    if parts.edges:
        lines += _edge_lines(entry, parts)
        lines.append(("inside batches", f"{parts.in_batch_edge_share or 0.0:.2%} of these edges"))
    return lines


def _graph_lines(entry: "ManifestEntry", quantile: "QuantileRecord", graph: "GraphRecord") -> list[tuple[str, str]]:
    achieved = "–" if quantile.achieved is None else f"{quantile.achieved:.6g}"
    if quantile.interval and quantile.sampled_rows:
        achieved += f" (sample's 95 % interval {quantile.interval[0]:.6g} to {quantile.interval[1]:.6g})"
    return [
        ("graph", _kind(graph)),
        ("threshold", f"{quantile.threshold:.4f}"),
        *([("achieved quantile", achieved)] if quantile.achieved is not None else []),
        *_edge_lines(entry, graph),
        ("bandwidth", _before_after(entry.bandwidth, "{:,.0f}")),
        ("in-batch edge share", _before_after(entry.in_batch_edge_share, "{:.2%}")),
    ]


def _kind(graph: "GraphRecord") -> str:
    if graph.rank_window is not None:
        skipped, width = graph.rank_window
        return f"mutual ranks {skipped} to {skipped + width - 1} of each row"
    return "pairs above the threshold" if graph.top is None else f"the {graph.top} hardest of each row, both ways"


def _before_after(values: dict[str, float | None], form: str) -> str:
    plan, before, random = (
        "–" if value is None else form.format(value) for value in (values["plan"], values["identity"], values["random"])
    )
    return f"{plan} (was {before}; random order {random})"


def forecast_table(rows: int, threshold: "Threshold", expected: "Forecast", device: str) -> "RenderableType":
    """What a plan would find and need, without making it."""
    lines = [("pairs", f"{rows:,}"), ("threshold", f"{threshold.similarity:.4f}")]
    if threshold.interval is not None:
        low, high = threshold.interval
        lines.append(("quantile", f"{threshold.requested:g} (achieved: {low:.6g} to {high:.6g})"))
    lines += [
        ("entries above it", f"about {expected.entries:,} ({expected.entries / rows:,.1f} a row)"),
        ("memory", f"about {show_size(expected.memory)}"),
        ("device", device),
        ("written", "nothing (dry run)"),
    ]
    return two_columns(lines)


def two_columns(lines: Sequence[tuple[str, str]]) -> "Table":
    """Names and values."""
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in lines:
        table.add_row(name, value)
    return table


def report_tables(reports: "Sequence[GapReport | SampledReport]") -> "RenderableType":
    """One report as a table with a sentence a figure; several as a line each."""
    return _one_report(reports[0]) if len(reports) == 1 else _many_reports(reports)


def _one_report(report: "GapReport | SampledReport") -> "RenderableType":
    from rich.console import Group
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("figure", style="bold", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("random", justify="right", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    for figure in shown_in("table"):
        value = report.at(figure.path)
        random = None if figure.random is None else report.at(figure.random)
        if value is not None or random is not None:
            table.add_row(
                figure.words, figure.text(value), "" if random is None else figure.text(random), figure.meaning
            )
    return Group(headline(report), "", table, "", _settings_of(report))


def _settings_of(report: "GapReport | SampledReport") -> str:
    rows = f"{report.n:,} pairs × {report.dim}"
    unit = f"losses in {report.unit}"
    if isinstance(report, SampledReport):
        every = report.n // report.batch_size
        rows = f"{report.rows:,} rows in {report.batches:,} of {every:,} batches, against all {rows}"
        unit += "; ± 95 % interval"
    loss = f"loss {report.loss_kind}, batch size {report.batch_size}, temperature {report.temperature:g}"
    return f"{rows}; {loss}; {unit}"


def _many_reports(reports: "Sequence[GapReport | SampledReport]") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    figures = shown_in("many")
    for name in ("loss", "k", "tau", *(figure.heading or figure.words for figure in figures)):
        table.add_column(name, justify="left" if name == "loss" else "right", no_wrap=True)
    for report in reports:
        cells = [figure.text(report.at(figure.path)) for figure in figures]
        table.add_row(report.loss_kind, str(report.batch_size), f"{report.temperature:g}", *cells)
    return table
