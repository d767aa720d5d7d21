"""The epochs as a page: losses, reduction, drift, and the table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gcbs_cli.reports.html.axes import Frame, drawing, labelled, ticks
from gcbs_cli.reports.html.markup import Markup, element, join, table
from gcbs_cli.reports.html.page import fill
from gcbs_cli.reports.html.sections import chart, paragraph, section

if TYPE_CHECKING:
    from gcbs_cli.history import Epoch, History

Course = tuple[str, Sequence[float | None]]
MOST_LABELS = 12


def history_page(history: "History") -> str:
    """The page as HTML, complete in itself."""
    epochs = history.epochs
    names = [epoch.name for epoch in epochs]
    losses: list[Course] = [
        ("L_global", [epoch.loss_global for epoch in epochs]),
        ("L_train, plan", [epoch.loss_train for epoch in epochs]),
        ("L_train, random", [epoch.loss_random for epoch in epochs]),
    ]
    shares: list[Course] = [
        ("gap reduction", [epoch.reduction for epoch in epochs]),
        ("masked reduction", [epoch.masked_reduction for epoch in epochs]),
        ("pairs that recur", [epoch.recurring for epoch in epochs]),
    ]
    body = join(
        _courses("Losses", "The gap is the distance between L_global and L_train.", names, losses, "nats"),
        _courses("What the plans are worth", _SHARES, names, shares, "share"),
        _courses("Threshold", _THRESHOLD, names, [("t", [epoch.threshold for epoch in epochs])], "similarity"),
        _courses("Seconds a plan takes", "", names, [("seconds", [epoch.plan_seconds for epoch in epochs])], "s"),
        section("All epochs", _table(epochs)),
    )
    return fill(f"gcbs history: {names[0]} to {names[-1]}", history.verdict, body)


_SHARES = (
    "How much smaller a plan's gap is than that of random batches, the same without suspected false negatives, and how "
    "many of the pairs that shared a batch in the plan before share one again."
)
_THRESHOLD = "The similarity above which a pair is hard. It moves as the model separates the pairs."


def _courses(title: str, text: str, names: Sequence[str], courses: Sequence[Course], unit: str) -> Markup:
    known = [(name, values) for name, values in courses if any(value is not None for value in values)]
    if not known:
        return Markup("")
    legend = [
        element("span", element("span", class_=f"key line-{number}"), f" {name}", class_="legend")
        for number, (name, _) in enumerate(known)
    ]
    children = [paragraph(text)] if text else []
    return section(title, *children, element("p", *legend), chart(_lines(title, names, known, unit), title))


def _lines(title: str, names: Sequence[str], courses: Sequence[Course], unit: str) -> Markup:
    values = [value for _, course in courses for value in course if value is not None]
    low, high = min(0.0, *values), max(values)
    high = high if high > low else low + 1.0
    frame = Frame.over((0.0, max(len(names) - 1.0, 1.0)), (low, high + 0.05 * (high - low)))
    parts: list[str] = []
    for number, (_, course) in enumerate(courses):
        points = [(frame.x(place), frame.y(value)) for place, value in enumerate(course) if value is not None]
        written = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(element("polyline", points=written, class_=f"line line-{number}"))
        parts += [element("circle", cx=x, cy=y, r=3, class_=f"line-{number}") for x, y in points]
    every = -(-len(names) // MOST_LABELS)
    x_ticks = [(float(place), f"{place + 1}") for place in range(0, len(names), every)]
    ends = ", ".join(f"{name} {_ends(course)}" for name, course in courses)
    axes = frame.axes(x_ticks, labelled(ticks(low, high, 4)), "epoch", unit)
    return drawing(f"{title} over {len(names)} epochs: {ends}", frame.height, axes, *parts)


def _ends(course: Sequence[float | None]) -> str:
    known = [value for value in course if value is not None]
    return f"from {known[0]:.4g} to {known[-1]:.4g}"


def _table(epochs: Sequence["Epoch"]) -> Markup:
    header = ["epoch", "L_global", "L_train", "random", "gap", "reduction", "masked", "threshold", "recur", "seconds"]
    forms = ("{:.4f}", "{:.4f}", "{:.4f}", "{:.4f}", "{:.1%}", "{:.1%}", "{:.4f}", "{:.1%}", "{:.2f}")
    rows = [
        [epoch.name, *("–" if value is None else form.format(value) for form, value in zip(forms, cells, strict=True))]
        for epoch in epochs
        for cells in [_cells(epoch)]
    ]
    return table("Losses and gap in nats", header, rows)


def _cells(epoch: "Epoch") -> tuple[float | None, ...]:
    losses = epoch.loss_global, epoch.loss_train, epoch.loss_random
    worth = epoch.gap, epoch.reduction, epoch.masked_reduction
    return *losses, *worth, epoch.threshold, epoch.recurring, epoch.plan_seconds
