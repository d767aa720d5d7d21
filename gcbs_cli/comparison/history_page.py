"""The epochs as a page: losses, reduction, drift, and the table."""

import re
from collections.abc import Sequence

from gcbs_cli.comparison.history.build import SHOWN, Course, History, courses
from gcbs_cli.reports.page.drawing import Axis, Line, Lines
from gcbs_cli.reports.page.page import render


def history_page(history: History) -> str:
    """The page as HTML, complete in itself."""
    names, by_path = [epoch.name for epoch in history.epochs], courses(history.epochs)

    def chart(title: str, unit: str, *paths: str, form: str = "{:g}") -> Lines | None:
        return course_lines(title, unit, form, names, [by_path[path] for path in paths])

    return render(
        "history.html",
        title=f"gcbs history: {names[0]} to {names[-1]}",
        headline=history.verdict,
        unit=history.epochs[0].report.unit,
        names=names,
        courses=[by_path[path] for path in SHOWN],
        losses=chart("Losses", "nats", "loss.plan", "loss.random_mean", "loss.global"),
        shares=chart(
            "What the plans are worth", "share", "gap.reduction", "gap.masked.reduction", "recurring", form="{:.0%}"
        ),
        threshold=chart("Threshold", "similarity", "graph.threshold"),
        seconds=chart("Seconds a plan takes", "seconds", "plan_seconds"),
    )


def course_lines(title: str, unit: str, form: str, names: Sequence[str], given: Sequence[Course]) -> Lines | None:
    """A line for each course over the epochs; None where no value is known."""
    lines: list[Line] = []
    ends = []
    for course in given:
        points = [(float(place), value) for place, value in enumerate(course.values) if value is not None]
        if points:
            ends.append(f"{course.words} from {points[0][1]:.4g} to {points[-1][1]:.4g}")
            lines.append(Line(f"line line-{len(lines)}", points, course.words, dots=True))
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
