"""What the charts of a page show; the templates draw them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np

from gcbs_cli.reports.schema import GapReport
from gcbs_cli.system.arrays import Float32s, Floats

SHARES = np.linspace(0.0, 1.0, 101)
"""Shares of a set of values, in rising order, at which its curve has points."""
MOST_TICKS = 5
LEAST_RANGE = 1e-3
"""The least range of an axis, so that roundings do not look like differences."""
NAMES = {
    "random": "random batches",
    "plan": "this plan",
    "none": "without a hard pair",
    "oracle": "oracle",
    "global": "all pairs",
}

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """Points joined by a line; `kind`: its colour, and the word line for one with dots."""

    kind: str
    points: Points
    name: str


@dataclass(frozen=True)
class Mark:
    """A value on an axis from 0, with a thin line between `ends`, and what is said of it."""

    name: str
    kind: str
    value: float
    ends: Sequence[float] = ()
    said: str = ""


@dataclass(frozen=True)
class Axis:
    """The range of an axis and how its ticks are written; with `labels` they stand at 0, 1, 2 …"""

    name: str
    low: float
    high: float
    form: str = "{:g}"
    labels: Sequence[str] = ()

    def place(self, value: float) -> float:
        """How far from low to high, in per cent; the middle where low is high."""
        return 100.0 * (value - self.low) / (self.high - self.low) if self.high > self.low else 50.0

    def ticks(self) -> list[tuple[float, str]]:
        """Some round numbers, or labels, with their places."""
        if self.labels:
            every = ceil(len(self.labels) / MOST_TICKS)
            return [(self.place(number), self.labels[number]) for number in range(0, len(self.labels), every)]
        raw = (self.high - self.low) / MOST_TICKS or 1.0
        power = 10.0 ** floor(log10(raw))
        step = power * next(m for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
        numbers = range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1)
        return [(self.place(number * step), self.form.format(round(number * step, 10))) for number in numbers]


@dataclass(frozen=True)
class Chart:
    """Lines over two axes; `described` is what a screen reader says."""

    described: str
    x: Axis
    y: Axis
    lines: Sequence[Line]


def spread_chart(what: str, of: str, unit: str, values: Mapping[str, Floats | Float32s]) -> Chart:
    """How sets of values are spread, by what they are of: a curve each, from the least to the largest."""
    lines = []
    for kind, some in values.items():
        heights = np.quantile(some, SHARES).tolist()
        lines.append(Line(kind, list(zip(SHARES.tolist(), heights, strict=True)), NAMES[kind]))
    known = [height for line in lines for _, height in line.points]
    medians = ", ".join(f"{NAMES[kind]} {np.median(some):.3f}" for kind, some in values.items())
    x = Axis(of, 0.0, 1.0, "{:.0%}")
    y = Axis(unit, min(known), max(min(known) + LEAST_RANGE, *known))
    return Chart(f"{what}, median: {medians}", x, y, lines)


def loss_marks(report: GapReport) -> list[Mark]:
    """Random batches, the plan, if any, and the oracle on the way to all pairs, by their loss."""
    loss = report.loss
    losses = {"random": loss.random_mean, "plan": loss.plan, "oracle": loss.global_ - report.gap.oracle}
    losses["global"] = loss.global_
    marks = [Mark(NAMES[kind], kind, value) for kind, value in losses.items() if value is not None]
    return sorted(marks, key=lambda mark: mark.value)
