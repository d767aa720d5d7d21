"""The epochs as a page: losses, reduction, drift, and the table."""

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from gcbs_cli.reports.page.axes import WIDTH, Frame, drawing, ticks
from gcbs_cli.reports.page.markup import Markup, element, join, table
from gcbs_cli.reports.page.page import fill
from gcbs_cli.reports.page.sections import chart, paragraph, section

if TYPE_CHECKING:
    from gcbs_cli.comparison.history import Epoch, History

Course = tuple[str, Sequence[float | None]]
MOST_LABELS = 12
"""Of epochs below a wide chart; half as many below a narrow one."""


def history_page(history: "History") -> str:
    """The page as HTML, complete in itself."""
    epochs = history.epochs
    names = [epoch.name for epoch in epochs]
    losses: list[Course] = [  # the plan's line first: its colour is that of the plan on a report's page
        ("L_train, plan", [epoch.loss_train for epoch in epochs]),
        ("L_train, random", [epoch.loss_random for epoch in epochs]),
        ("L_global", [epoch.loss_global for epoch in epochs]),
    ]
    shares: list[Course] = [
        ("gap reduction", [epoch.reduction for epoch in epochs]),
        ("masked reduction", [epoch.masked_reduction for epoch in epochs]),
        ("pairs that recur", [epoch.recurring for epoch in epochs]),
    ]
    body = join(
        _courses("Losses", _LOSSES, names, losses, "nats"),
        _courses("What the plans are worth", _SHARES, names, shares, "share", "{:.0%}"),
        _courses("Threshold", _THRESHOLD, names, [("t", [epoch.threshold for epoch in epochs])], "similarity"),
        _courses("Seconds a plan takes", "", names, [("seconds", [epoch.plan_seconds for epoch in epochs])], "seconds"),
        section("All epochs", element("div", _table(epochs), class_="epochs")),
    )
    return fill(f"gcbs history: {names[0]} to {names[-1]}", history.verdict, _GAP, body)


_GAP = (
    "Training compares a row with those of its batch alone. The gap is the part of the loss over all pairs that it "
    "does not see; a plan puts similar rows into one batch, so that it sees more."
)
_LOSSES = (
    "L_global is the loss if every row saw all other rows, L_train what the batches show of it. The gap is the "
    "distance between the two, and planning pays while the plan's line lies clear above that of random batches."
)
_SHARES = (
    "How much smaller a plan's gap is than that of random batches, the same without suspected false negatives, and how "
    "many of the pairs that shared a batch in the plan before share one again."
)
_THRESHOLD = "The similarity above which a pair is hard. It moves as the model separates the pairs."


def _courses(
    title: str, text: str, names: Sequence[str], courses: Sequence[Course], unit: str, form: str = "{:g}"
) -> Markup:
    known = [(name, values) for name, values in courses if any(value is not None for value in values)]
    if not known:
        return Markup("")
    legend = [
        element("span", element("span", class_=f"key line-{number}"), f" {name}", class_="legend")
        for number, (name, _) in enumerate(known)
    ]
    children = [paragraph(text)] if text else []
    children += [element("p", *legend)] if len(known) > 1 else []
    return section(title, *children, chart(partial(_lines, title, names, known, unit, form)))


def _lines(title: str, names: Sequence[str], courses: Sequence[Course], unit: str, form: str, width: float) -> Markup:
    values = [value for _, course in courses for value in course if value is not None]
    low, high = min(0.0, *values), max(values)
    high = high if high > low else low + 1.0
    frame = Frame.over((0.0, max(len(names) - 1.0, 1.0)), (low, high + 0.05 * (high - low)), width)
    parts: list[str] = []
    for number, (_, course) in enumerate(courses):
        points = [(frame.x(place), frame.y(value)) for place, value in enumerate(course) if value is not None]
        written = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(element("polyline", points=written, class_=f"line line-{number}"))
        parts += [element("circle", cx=x, cy=y, r=3, class_=f"line-{number}") for x, y in points]
    every = -(-len(names) // (MOST_LABELS if width >= WIDTH else MOST_LABELS // 2))
    labels = _labels(names)
    x_ticks = [(float(place), labels[place]) for place in range(0, len(names), every)]
    y_ticks = [(value, form.format(round(value, 10))) for value in ticks(low, high, 4)]
    ends = ", ".join(f"{name} {_ends(course)}" for name, course in courses)
    axes = frame.axes(x_ticks, y_ticks, "epoch", unit)
    return drawing(f"{title} over {len(names)} epochs: {ends}", width, frame.height, axes, *parts)


def _labels(names: Sequence[str]) -> list[str]:
    """The number at the end of each name where all have one of their own, else 1, 2, 3."""
    ends = [re.search(r"\d{1,6}$", name) for name in names]
    numbers = [end.group() for end in ends if end is not None]
    return numbers if len(set(numbers)) == len(names) else [f"{place + 1}" for place in range(len(names))]


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
