"""The epochs as a page: losses, reduction, drift, and the table."""

import re
from collections.abc import Sequence

from gcbs_cli.comparison.history.build import History
from gcbs_cli.reports.page.drawing import Axis, Line, Lines
from gcbs_cli.reports.page.page import render

Course = tuple[str, Sequence[float | None]]


def history_page(history: History) -> str:
    """The page as HTML, complete in itself."""
    names = [epoch.name for epoch in history.epochs]

    def course(title: str, unit: str, fields: dict[str, str], form: str = "{:g}") -> Lines | None:
        values = {name: [getattr(epoch, field) for epoch in history.epochs] for name, field in fields.items()}
        return course_lines(title, unit, form, names, values)

    losses = {"L_train, plan": "loss_train", "L_train, random": "loss_random", "L_global": "loss_global"}
    shares = {"gap reduction": "reduction", "masked reduction": "masked_reduction", "pairs that recur": "recurring"}
    return render(
        "history.html",
        title=f"gcbs history: {names[0]} to {names[-1]}",
        headline=history.verdict,
        epochs=history.epochs,
        losses=course("Losses", "nats", losses),
        shares=course("What the plans are worth", "share", shares, "{:.0%}"),
        threshold=course("Threshold", "similarity", {"t": "threshold"}),
        seconds=course("Seconds a plan takes", "seconds", {"seconds": "plan_seconds"}),
    )


def course_lines(
    title: str, unit: str, form: str, names: Sequence[str], courses: dict[str, list[float | None]]
) -> Lines | None:
    """A line for each course over the epochs; None where no value is known."""
    lines: list[Line] = []
    ends = []
    for name, values in courses.items():
        points = [(float(place), value) for place, value in enumerate(values) if value is not None]
        if points:
            ends.append(f"{name} from {points[0][1]:.4g} to {points[-1][1]:.4g}")
            lines.append(Line(f"line line-{len(lines)}", points, name, dots=True))
    if not lines:
        return None
    known = [value for line in lines for _, value in line.points]
    low, high = min(0.0, *known), max(known)
    high += 0.05 * (high - low) if high > low else 1.0
    x = Axis("epoch", 0.0, max(len(names) - 1.0, 1.0), labels=epoch_labels(names))
    return Lines(f"{title} over {len(names)} epochs: {', '.join(ends)}", x, Axis(unit, low, high, form), lines)


def epoch_labels(names: Sequence[str]) -> list[str]:
    """The number at the end of each name where all have one of their own, else 1, 2, 3."""
    ends = [re.search(r"\d{1,6}$", name) for name in names]
    numbers = [end.group() for end in ends if end is not None]
    return numbers if len(set(numbers)) == len(names) else [f"{place + 1}" for place in range(len(names))]
