"""The epochs as a table with a row of small bars for each figure; it fits 80 columns."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from gcbs_cli.comparison.history.build import SHOWN, Course, History, courses

if TYPE_CHECKING:
    from rich.console import RenderableType

BARS = "▁▂▃▄▅▆▇█"
BARS_SHOWN = 24
NAME_WIDTH = 14


def sparkline(values: Sequence[float | None], width: int = BARS_SHOWN) -> str:
    """One bar for each value, or for the mean of neighbours where there are more than `width`; a blank for None."""
    groups = _groups(values, width)
    known = [value for value in groups if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if value is None else BARS[round((value - low) * scale)] for value in groups)


def _groups(values: Sequence[float | None], width: int) -> list[float | None]:
    if len(values) <= width:
        return list(values)
    bounds = [number * len(values) // width for number in range(width + 1)]
    means: list[float | None] = []
    for start, stop in pairwise(bounds):
        known = [value for value in values[start:stop] if value is not None]
        means.append(sum(known) / len(known) if known else None)
    return means


def history_table(history: History) -> "RenderableType":
    """A line for each epoch, the course of each figure below, and the verdict."""
    from rich.console import Group
    from rich.table import Table

    by_path = courses(history.epochs)
    shown = [by_path[path] for path in SHOWN]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("epoch", no_wrap=True, overflow="ellipsis", max_width=NAME_WIDTH)
    for course in shown:
        table.add_column(course.heading, justify="right", no_wrap=True)
    for place, epoch in enumerate(history.epochs):
        table.add_row(epoch.name, *(course.text(course.values[place]) for course in shown))
    first = history.epochs[0].report
    settings = f"{first.n:,} pairs, batch size {first.batch_size}, temperature {first.temperature:g}"
    return Group(history.verdict, "", table, "", _bars(shown), "", f"{settings}; losses in {first.unit}")


def _bars(shown: Sequence[Course]) -> "RenderableType":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for _ in range(3):
        table.add_column(no_wrap=True)
    for course in shown:
        known = [value for value in course.values if value is not None]
        if known:
            table.add_row(
                course.heading, sparkline(course.values), f"{course.text(known[0])} → {course.text(known[-1])}"
            )
    return table
