"""The epochs as a table with a line of small bars a figure; it fits 80 columns."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gcbs_cli.comparison.history import Epoch, History

BARS = "▁▂▃▄▅▆▇█"
BARS_SHOWN = 24
NAME_WIDTH = 14
FIGURES = (
    ("L_global", "loss_global", "{:.3f}"),
    ("L_train", "loss_train", "{:.3f}"),
    ("gap", "gap", "{:.3f}"),
    ("reduct.", "reduction", "{:.1%}"),
    ("t", "threshold", "{:.3f}"),
    ("recur", "recurring", "{:.0%}"),
    ("plan s", "plan_seconds", "{:.1f}"),
)
"""Heading, field and format."""


def sparkline(values: Sequence[float | None], width: int = BARS_SHOWN) -> str:
    """One bar a value, at most `width` of them (the means of neighbours), a blank where there is none."""
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


def history_table(history: "History") -> "RenderableType":
    """A line an epoch, the figures' courses below, and the verdict."""
    from rich.console import Group
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("epoch", no_wrap=True, overflow="ellipsis", max_width=NAME_WIDTH)
    for heading, _, _ in FIGURES:
        table.add_column(heading, justify="right", no_wrap=True)
    for epoch in history.epochs:
        table.add_row(epoch.name, *(_cell(epoch, field, form) for _, field, form in FIGURES))
    first = history.epochs[0]
    settings = f"{first.n:,} pairs, batch size {first.batch_size}, temperature {first.temperature:g}; losses in nats"
    return Group(history.verdict, "", table, "", _courses(history.epochs), "", settings)


def _cell(epoch: "Epoch", field: str, form: str) -> str:
    value = getattr(epoch, field)
    return "–" if value is None else form.format(value)


def _courses(epochs: Sequence["Epoch"]) -> "RenderableType":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for _ in range(3):
        table.add_column(no_wrap=True)
    for heading, field, form in FIGURES:
        values = [getattr(epoch, field) for epoch in epochs]
        known = [value for value in values if value is not None]
        if known:
            table.add_row(heading, sparkline(values), f"{form.format(known[0])} → {form.format(known[-1])}")
    return table
