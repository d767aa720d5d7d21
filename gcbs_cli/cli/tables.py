"""Tables and sentences for people; each fits 80 columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gcbs_cli.reports.headline import headline
from gcbs_cli.system.limits import show_size

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from gcbs_cli.plan_file.manifest import GraphRecord, ManifestEntry, QuantileRecord
    from gcbs_cli.planning.forecast import Forecast
    from gcbs_cli.products.threshold import Threshold
    from gcbs_cli.reports.schema import GapReport


def plan_table(entry: "ManifestEntry", output: str, seconds: float) -> "RenderableType":
    """What `gcbs plan` did, one line a figure."""
    rows = entry.rows
    full, rest = divmod(rows, entry.batch_size)
    batches = f"{full:,} of {entry.batch_size}" + (f" and one of {rest}" if rest else "")
    lines = [("pairs", f"{rows:,} × {entry.inputs.x.dim}"), ("batches", batches)]
    lines += rank_lines(entry)
    lines.append(("method", entry.method))
    if entry.quantile is not None and entry.graph is not None:
        lines += _graph_lines(entry, entry.quantile, entry.graph)
    lines += quality_lines(entry)
    steps = ", ".join(f"{name} {value:.2f}" for name, value in entry.timings.items())
    lines += [("seconds", f"{seconds:.2f} ({steps})"), ("written", "stdout" if output == "-" else output)]
    return two_columns(lines)


def quality_lines(entry: "ManifestEntry") -> list[tuple[str, str]]:
    """What the refinement did and how many suspected pairs are left, where they were asked for."""
    lines, record = [], entry.method_settings
    if "refinement" in record:
        done = record["refinement"]
        ended = "; stopped by --time-limit" if done["timed_out"] else ""
        lines.append(("refinement", f"{done['swaps']:,} swaps in {done['sweeps']} sweeps{ended}"))
    if record.get("false_negatives", {}).get("suspected_inside") is not None:
        lines.append(("suspected pairs", f"{record['false_negatives']['suspected_inside']:,} inside batches"))
    return lines


def rank_lines(entry: "ManifestEntry") -> list[tuple[str, str]]:
    """What each rank takes of the batches, where ranks were named."""
    return [] if entry.world_size is None else [("ranks", _ranks(entry, entry.world_size))]


def _ranks(entry: "ManifestEntry", world_size: int) -> str:
    if entry.gather:
        return f"{world_size}: each takes {entry.batch_size // world_size} rows of every batch"
    each, over = divmod(entry.rows // entry.batch_size, world_size)
    return f"{world_size}: {each:,} full batches each" + (f", {over} over" if over else "")


def _graph_lines(entry: "ManifestEntry", quantile: "QuantileRecord", graph: "GraphRecord") -> list[tuple[str, str]]:
    lines = [("graph", _kind(graph)), ("threshold", f"{quantile.threshold:.4f}")]
    if quantile.achieved is not None:
        lines.append(("achieved quantile", _achieved(quantile)))
    lines += [
        ("edges", f"{graph.edges:,}"),
        ("rows without an edge", f"{graph.isolated:,} ({graph.isolated / entry.rows:.1%})"),
        ("largest degree", f"{graph.max_degree:,}"),
        ("bandwidth", _before_after(entry.bandwidth)),
        ("in-batch edge share", _before_after(entry.in_batch_edge_share, percent=True)),
    ]
    return lines


def _kind(graph: "GraphRecord") -> str:
    if graph.rank_window is not None:
        skipped, width = graph.rank_window
        return f"mutual ranks {skipped} to {skipped + width - 1} of each row"
    return "pairs above the threshold" if graph.top is None else f"the {graph.top} hardest of each row, both ways"


def _achieved(quantile: "QuantileRecord") -> str:
    text = f"{quantile.achieved:.6g}"
    if quantile.interval and quantile.sampled_rows:
        text += f" (sample's 95 % interval {quantile.interval[0]:.6g} to {quantile.interval[1]:.6g})"
    return text


def _before_after(values: dict[str, float | None], *, percent: bool = False) -> str:
    def show(value: float | None) -> str:
        return "–" if value is None else f"{value:.2%}" if percent else f"{value:,.0f}"

    return f"{show(values['plan'])} (was {show(values['identity'])}; random order {show(values['random'])})"


def forecast_table(rows: int, threshold: "Threshold", expected: "Forecast", device: str) -> "RenderableType":
    """What a plan would find and need, without making it."""
    estimate = threshold.estimate
    lines = [("pairs", f"{rows:,}"), ("threshold", f"{threshold.value:.4f}")]
    if estimate is not None:
        lines.append(("quantile", f"{estimate.requested:g} (achieved: {estimate.low:.6g} to {estimate.high:.6g})"))
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


def three_columns(lines: Sequence[tuple[str, str, str]]) -> "Table":
    """Figures, their values and what these say."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, title_justify="left")
    table.add_column("figure", style="bold", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("what it says", overflow="fold")
    for line in lines:
        table.add_row(*line)
    return table


def report_tables(reports: "Sequence[GapReport]") -> "RenderableType":
    """One report as a table with a sentence a figure; several as a line each."""
    return _report_table(reports[0]) if len(reports) == 1 else _many_reports(reports)


def _report_table(report: "GapReport") -> "RenderableType":
    from rich.console import Group

    table = three_columns(_report_lines(report))
    settings = (
        f"{report.n:,} pairs × {report.dim}, loss {report.loss_kind}, batch size {report.batch_size}, "
        f"temperature {report.temperature:g}; losses in {report.unit}"
    )
    return Group(headline(report), "", table, "", settings)


def _report_lines(report: "GapReport") -> list[tuple[str, str, str]]:
    loss, gap = report.loss, report.gap
    lines = [("L_global", f"{loss.global_:.4f}", "the loss if every row saw all other rows")]
    if loss.plan is not None:
        lines.append(("L_train, plan", f"{loss.plan:.4f}", "the loss that training on these batches sees"))
    lines.append(
        ("L_train, random", f"{loss.random_mean:.4f}", f"the same for random batches (± {loss.random_std:.4f})")
    )
    if gap.plan is not None:
        lines += [
            ("gap, plan", f"{gap.plan:.4f}", "what training on these batches does not see"),
        ]
    lines.append(("gap, random", f"{gap.random_mean:.4f}", "what training on random batches does not see"))
    lines.append(("gap, oracle", f"{gap.oracle:.4f}", "if every row had its own hardest negatives; out of reach"))
    if gap.plan is not None:
        lines += [
            ("gap reduction", _share(gap.reduction), "how much smaller the plan's gap is than random's"),
            ("closed share", _share(gap.closed_share), "the same, of what the oracle could close"),
            ("masked reduction", _share(gap.masked.reduction), "gap reduction without suspected false negatives"),
        ]
    lines += _part_lines(report)
    lines += _other_lines(report)
    return lines


def _part_lines(report: "GapReport") -> list[tuple[str, str, str]]:
    """What planning in parts cost."""
    cost = report.partitions
    if cost is None:
        return []
    lines = []
    if cost.edges_across is not None:
        lines.append(("across parts", _share(cost.edges_across), f"hard pairs in different ones of {cost.parts} parts"))
    if cost.one_graph is not None and cost.lost is not None:
        change = f"lose {cost.lost:.1%}" if cost.lost > 0 else f"gain {-cost.lost:.1%}"
        lines.append(("one graph", _share(cost.one_graph), f"gap reduction without parts; they {change} of it"))
    return lines


def _other_lines(report: "GapReport") -> list[tuple[str, str, str]]:
    lines = []
    false = report.false_negatives
    if false.suspected_pairs is not None:
        text = f"inside batches, on {false.rows:,} rows; {false.random:,.0f} in random ones"
        lines.append(("false negatives?", f"{false.suspected_pairs:,}", f"suspected pairs {text}"))
        lines += [
            (
                "translation bound",
                _number(report.bounds.translation),
                "the gap cannot exceed this (translation identity)",
            ),
            ("log-sum-exp bound", _number(report.bounds.logsumexp), "nor this"),
        ]
    else:
        lines.append(("false negatives?", f"{false.random:,.0f}", "suspected pairs inside random batches"))
    lines += _held_apart_lines(report)
    probability = report.positive_probability
    own = probability.random if probability.plan is None else probability.plan
    lines.append(("p(positive)", f"{own:.3f}", f"in a batch; among all rows it is {probability.global_:.3f}"))
    lines += _graph_report_lines(report)
    lines.append(("alignment", f"{report.alignment:.3f}", "mean squared distance of the positive pairs"))
    spread = f"{report.uniformity.x:.2f} / {report.uniformity.y:.2f}"
    lines.append(("uniformity, x / y", spread, "lower is more evenly spread over the sphere"))
    if report.mutual_information_bound is not None:
        text = "nats of mutual information, at least (log k − L_train)"
        lines.append(("information", f"{report.mutual_information_bound:.3f}", text))
    if report.cross_check is not None:
        text = f"from the gap of {report.cross_check.rows:,} rows computed once more in float64"
        lines.append(("difference", f"{report.cross_check.difference:.1e}", text))
    return lines


def _held_apart_lines(report: "GapReport") -> list[tuple[str, str, str]]:
    """Pairs that a plan can hold apart, where they were counted."""
    false, lines = report.false_negatives, []
    for name, found, kind in (
        ("hardest ranks", false.top, f"pairs of a row with its {false.top_ranks} hardest"),
        ("duplicates", false.duplicates, "pairs with equal x or equal y"),
    ):
        if found is not None:
            inside = "inside random batches" if found.plan is None else f"inside batches; {found.random:,.0f} in random"
            value = found.random if found.plan is None else found.plan
            lines.append((name, f"{value:,.0f}", f"{kind} {inside}; {found.total:,} in all"))
    return lines


def _graph_report_lines(report: "GapReport") -> list[tuple[str, str, str]]:
    graph, bandwidth, share = report.graph, report.bandwidth, report.in_batch_edge_share
    text = f"pairs above {graph.threshold:.4f}; {graph.isolated:,} rows have none"
    lines = [("hard pairs", f"{graph.edges:,}", text)]
    if bandwidth.plan is not None:
        lines.append(
            ("bandwidth", f"{bandwidth.plan:,.0f}", f"rows between hard pairs at most; was {bandwidth.identity:,.0f}")
        )
        lines.append(
            ("in-batch edges", _share(share.plan), f"hard pairs sharing a batch; random {_share(share.random)}")
        )
    return lines


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _many_reports(reports: "Sequence[GapReport]") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("loss", "k", "tau", "L_global", "L_train", "random", "oracle", "reduction", "closed", "suspects"):
        table.add_column(name, justify="left" if name == "loss" else "right", no_wrap=True)
    for report in reports:
        gap, suspects = report.gap, report.false_negatives.suspected_pairs
        table.add_row(
            report.loss_kind,
            str(report.batch_size),
            f"{report.temperature:g}",
            f"{report.loss.global_:.3f}",
            "–" if report.loss.plan is None else f"{report.loss.plan:.3f}",
            f"{report.loss.random_mean:.3f}",
            f"{gap.oracle:.3f}",
            _share(gap.reduction),
            _share(gap.closed_share),
            "–" if suspects is None else f"{suspects:,}",
        )
    return table
