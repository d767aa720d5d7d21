"""The sections of the page: a heading, what the figure says in words, and the figure."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.reports.details import ReportDetails
from gcbs_cli.reports.page import charts
from gcbs_cli.reports.page.axes import NARROW, WIDTH
from gcbs_cli.reports.page.markup import Markup, element, join, table
from gcbs_cli.reports.schema import GapReport

LISTED_BATCHES = 5
LISTED_ROWS = 6
MOST_ROWS = 256


class RowNames:
    """How a row is called: its number, and its id where the input has one."""

    def __init__(self, ids: Mapping[int, str]) -> None:
        self._ids = ids

    def of(self, row: int) -> str:
        """`123 (some.id)`, or `123`."""
        name = self._ids.get(row)
        return f"{row}" if name is None else f"{row} ({name})"


def section(title: str, *children: str | None) -> Markup:
    """A heading and what follows it."""
    return element("section", element("h2", title), *(child for child in children if child is not None))


def figure(picture: str | None, caption: str = "") -> Markup | None:
    """A picture with its caption; None without one."""
    if picture is None:
        return None
    return element("figure", picture, element("figcaption", caption)) if caption else element("figure", picture)


def chart(draw: Callable[[float], Markup | None], caption: str = "") -> Markup | None:
    """A figure drawn at two widths, of which the style sheet shows one; None where there is nothing to draw."""
    wide, narrow = draw(WIDTH), draw(NARROW)
    if wide is None or narrow is None:
        return None
    both = element("div", wide, class_="wide"), element("div", narrow, class_="narrow")
    return figure(join(*both), caption)


def paragraph(text: str) -> Markup:
    """One paragraph, escaped."""
    return element("p", text)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def tiles(report: GapReport) -> Markup:
    """The figures to look at first."""
    gap, false = report.gap, report.false_negatives
    shown = [("gap, random batches", f"{gap.random_mean:.3f}", "nats that training does not see")]
    if gap.plan is not None:
        shown = [
            ("gap reduction", _share(gap.reduction), f"gap {gap.random_mean:.3f} → {gap.plan:.3f} nats"),
            ("closed share", _share(gap.closed_share), "of what the hardest batches imaginable (oracle) could close"),
            ("masked reduction", _share(gap.masked.reduction), "the gap reduction without suspected false negatives"),
            (
                "suspected false negatives",
                f"{false.suspected_pairs:,}",
                f"pairs; {false.random:,.0f} in random batches",
            ),
        ]
    else:
        shown.append(("gap, oracle", f"{gap.oracle:.3f}", "with every row's own hardest negatives"))
        shown.append(("suspected false negatives", f"{false.random:,.0f}", "pairs in random batches"))
    items = [element("li", name, element("strong", value), element("span", said)) for name, value, said in shown]
    return element("ul", *items, class_="tiles")


def losses(report: GapReport, details: ReportDetails) -> Markup:
    """L_global, L_train, random and oracle."""
    low, high = float(details.trial_losses.min()), float(details.trial_losses.max())
    text = (
        "The gap is the distance from a bar of L_train to L_global. A plan is good when its bar comes closer than that "
        "of random batches. The oracle gives each row its own hardest negatives, which no order of the rows can."
    )
    caption = (
        f"Mean loss in nats. The marks on the random bar are {len(details.trial_losses)} random orders, "
        f"from {low:.3f} to {high:.3f}."
    )
    return section(
        "What training sees", paragraph(text), chart(partial(charts.loss_bars, report, details.trial_losses), caption)
    )


def matrices(report: GapReport, details: ReportDetails) -> Markup:
    """The thresholded matrix before and after."""
    share, graph = report.in_batch_edge_share, report.graph
    inside = "" if share.plan is None else f" {_share(share.plan)} of them share a batch"
    inside += (
        f" ({_share(share.random)} in a random order)." if share.plan is not None and share.random is not None else ""
    )
    text = (
        f"A mark is a hard pair: two rows whose similarity exceeds {graph.threshold:.4f}. There are {graph.edges:,}."
        f"{inside or ''} Training sees what lies inside the squares on the diagonal, which are the batches. "
        "The stronger a mark, the more pairs it stands for."
    )
    found = [figure(picture, caption) for caption, picture in charts.pictures(details, report.batch_size)]
    return section(
        "Where the hard pairs lie", paragraph(text), element("div", *(f for f in found if f is not None), class_="pair")
    )


def hardest(details: ReportDetails) -> Markup:
    """The distribution of in-batch hardest negatives."""
    plan = details.plan.hardest if details.plan else None
    picture = partial(charts.hardest_histogram, details.random.hardest, plan)
    legend = [_key("random", "random batches")]
    words = f"In random batches it is {_mean(details.random.hardest):.3f} on average"
    if plan is not None:
        legend.append(_key("plan", "this plan"))
        words += f", in this plan's {_mean(plan):.3f}"
    text = f"For every row, the similarity of the most similar wrong answer in its batch. {words}."
    return section("The hardest negative of each row", paragraph(text), element("p", *legend), chart(picture))


def _mean(values: NDArray[np.float32]) -> float:
    return float(values[np.isfinite(values)].mean(dtype=np.float64))


def _key(kind: str, name: str) -> Markup:
    return element("span", element("span", class_=f"key {kind}"), f" {name}", class_="legend")


def batches(report: GapReport, details: ReportDetails, names: RowNames) -> Markup | None:
    """Loss by batch, with the hardest and the easiest."""
    if details.batch_losses is None or details.perm is None:
        return None
    picture = partial(charts.batch_loss_columns, details.batch_losses, report.loss.random_mean)
    order = np.argsort(details.batch_losses, kind="stable")
    text = "Mean loss of each batch, in the plan's order. The dashed line is the mean of random batches."
    caption = ""
    if len(details.batch_losses) > charts.MOST_COLUMNS:
        caption = "A column is several batches: its height their mean, the line from the smallest to the largest."
    return section(
        "Loss by batch",
        paragraph(text),
        chart(picture, caption),
        _batch_table("Hardest batches", order[::-1][:LISTED_BATCHES], details, report.batch_size, names),
        _batch_table("Easiest batches", order[:LISTED_BATCHES], details, report.batch_size, names),
    )


def _batch_table(caption: str, chosen: NDArray[np.int64], details: ReportDetails, size: int, names: RowNames) -> Markup:
    assert details.perm is not None
    assert details.batch_losses is not None
    rows = []
    for batch in chosen.tolist():
        members = details.perm[batch * size : (batch + 1) * size].tolist()
        rows.append((f"{batch:,}", f"{details.batch_losses[batch]:.3f}", _members(members, names)))
    head = ["batch", "loss", "rows"]
    body = [
        element("tr", element("th", one, scope="row"), element("td", two), element("td", three, class_="rows"))
        for one, two, three in rows
    ]
    header = element("tr", *(element("th", name, scope="col") for name in head))
    inner = element("table", element("caption", caption), element("thead", header), element("tbody", *body))
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _members(rows: Sequence[int], names: RowNames) -> Markup:
    first = ", ".join(names.of(row) for row in rows[:LISTED_ROWS])
    if len(rows) <= LISTED_ROWS:
        return join(first)
    rest = ", ".join(names.of(row) for row in rows[LISTED_ROWS:MOST_ROWS])
    more = f" and {len(rows) - MOST_ROWS:,} more" if len(rows) > MOST_ROWS else ""
    return join(first, element("details", element("summary", f"{len(rows) - LISTED_ROWS:,} more rows"), rest + more))


def grid(reports: Sequence[GapReport]) -> Markup | None:
    """Gap reduction against temperature and batch size."""
    kinds = {report.loss_kind for report in reports}
    same = [report for report in reports if report.loss_kind == reports[0].loss_kind]
    if len(same) < 2 or all(report.gap.plan is None for report in same):
        return None
    temperatures = sorted({report.temperature for report in same})
    sizes = sorted({report.batch_size for report in same})
    cells = {(report.batch_size, report.temperature): _share(report.gap.reduction) for report in same}
    header = ["batch size", *(f"temperature {t:g}" for t in temperatures)]
    rows = [[f"{size:,}", *(cells.get((size, t), "–") for t in temperatures)] for size in sizes]
    text = (
        "The same order, cut into batches of another size or judged at another temperature. A low temperature weighs "
        "the hardest negatives most; a plan was made for one batch size."
    )
    if len(kinds) > 1:
        text += f" Shown for the loss {reports[0].loss_kind}."
    picture = chart(partial(charts.reduction_lines, same))
    legend = element("p", charts.line_legend(same)) if picture is not None else None
    return section(
        "Other temperatures and batch sizes",
        paragraph(text),
        legend,
        picture,
        table("Gap reduction", header, rows),
    )


def false_negatives(report: GapReport, details: ReportDetails, names: RowNames) -> Markup:
    """Suspected false negatives, with examples."""
    false = report.false_negatives
    meaning = (
        "A suspected false negative is a pair of rows in one batch that is about as similar as a true pair. The loss "
        "pushes the two apart; if either would be a right answer for the other, that teaches the model something wrong."
    )
    if false.suspected_pairs is None or false.rows is None:
        found = f"Random batches hold {false.random:,.0f} of them."
        return section("Suspected false negatives", paragraph(meaning), paragraph(found), _held_apart(report))
    found = (
        f"This plan's batches hold {false.suspected_pairs:,}, on {false.rows:,} of {report.n:,} rows; random batches "
        f"hold {false.random:,.0f}."
    )
    rows = [
        (
            names.of(suspect.rows[0]),
            names.of(suspect.rows[1]),
            f"{suspect.batch:,}",
            *(f"{value:.3f}" for value in (*suspect.similarities, *suspect.own)),
        )
        for suspect in details.suspects
    ]
    header = ["row i", "row j", "batch", "s(i, j)", "s(j, i)", "s(i, i)", "s(j, j)"]
    examples = table("The most similar of them", header, rows, text_columns=2) if rows else None
    return section("Suspected false negatives", paragraph(meaning), paragraph(found), _held_apart(report), examples)


def _held_apart(report: GapReport) -> Markup | None:
    """The other pairs that a plan can hold apart, where they were counted."""
    false = report.false_negatives
    kinds = [(f"one of a row's {false.top_ranks} hardest", false.top), ("equal x or equal y", false.duplicates)]
    rows = [
        (kind, "–" if found.plan is None else f"{found.plan:,}", f"{found.random:,.0f}", f"{found.total:,}")
        for kind, found in kinds
        if found is not None
    ]
    header = ["pairs", "in this plan's batches", "in random batches", "in all"]
    return table("Other pairs that a plan can hold apart", header, rows) if rows else None


def bounds(report: GapReport) -> Markup | None:
    """Both upper bounds beside the gap."""
    picture = chart(partial(charts.bound_bars, report))
    if picture is None:
        return None
    text = (
        "Two proven upper bounds on this plan's gap, in nats. The gap cannot exceed either; the translation bound "
        "falls when batches hold each row's hardest negatives."
    )
    return section("Bounds", paragraph(text), picture)


def figures(report: GapReport) -> Markup:
    """Every figure of the JSON report, by its name there."""
    rows = [
        (name, value) for name, value in _flat("", report.model_dump(mode="json")) if not name.startswith("timings")
    ]
    seconds = [(name, value) for name, value in _flat("", {"timings": report.timings})]
    inner = table("As in gcbs report --json; losses, gaps and bounds in nats", ["name", "value"], [*rows, *seconds])
    return section("All figures", element("details", element("summary", "Show all figures"), inner))


def _flat(prefix: str, values: Mapping[str, object]) -> list[tuple[str, str]]:
    found = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += _flat(f"{prefix}{name}.", value)
        else:
            found.append((prefix + name, _plain(value)))
    return found


def _plain(value: object) -> str:
    return "–" if value is None else f"{value:.6g}" if isinstance(value, float) else f"{value}"


def settings(facts: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> Markup:
    """Inputs, plan and settings, with their hashes."""
    tables = [
        element("div", table(group, ["what", "value"], lines, text_columns=2), class_="facts") for group, lines in facts
    ]
    return section("Settings and hashes", *tables)


def rows_named(details: ReportDetails, batch_size: int) -> list[int]:
    """The rows whose names the page shows."""
    rows = [row for suspect in details.suspects for row in suspect.rows]
    if details.batch_losses is not None and details.perm is not None:
        order = np.argsort(details.batch_losses, kind="stable")
        for batch in {*order[:LISTED_BATCHES].tolist(), *order[::-1][:LISTED_BATCHES].tolist()}:
            rows += details.perm[batch * batch_size : (batch + 1) * batch_size][:MOST_ROWS].tolist()
    return rows
