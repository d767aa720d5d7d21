"""The epochs as a page: losses, reduction, drift, and the table."""

import re
from collections.abc import Sequence

from gcbs_cli.comparison.history.build import SHOWN, History, courses
from gcbs_cli.reports.page import charts
from gcbs_cli.reports.page.drawing import Axis, Lines
from gcbs_cli.reports.page.page import render


def history_page(history: History) -> str:
    """The page as HTML, complete in itself."""
    names, by_path = [epoch.name for epoch in history.epochs], courses(history.epochs)
    x = Axis("epoch", 0.0, max(len(names) - 1.0, 1.0), labels=epoch_labels(names))

    def chart(title: str, unit: str, *paths: str, form: str = "{:g}") -> Lines | None:
        return charts.courses(title, x, unit, {by_path[path].words: by_path[path].values for path in paths}, form)

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


def epoch_labels(names: Sequence[str]) -> list[str]:
    """The number at the end of each name where all have one of their own, else 1, 2, 3."""
    ends = [re.search(r"\d{1,6}$", name) for name in names]
    numbers = [end.group() for end in ends if end is not None]
    return numbers if len(set(numbers)) == len(names) else [f"{place + 1}" for place in range(len(names))]
