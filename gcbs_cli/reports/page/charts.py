"""What the charts of a page show; the templates draw them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np

from gcbs_cli.reports.schema import GapReport
from gcbs_cli.system.arrays import Array, Bools, Float32s, Floats

HISTOGRAM_BINS = 48
MOST_STEPS = 240
MOST_TICKS = 5

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """Points joined by a line, with dots where `kind` is a line, or the outline of an area, as the style sheet says."""

    kind: str
    points: Points
    name: str = ""
    said: str = ""
    """What is shown to a pointer that rests on it."""


@dataclass(frozen=True)
class Mark:
    """A value on an axis from 0, with a thin line to `ends`, what is said of it, and the gap it leaves, where shown."""

    name: str
    kind: str
    value: float
    ends: Sequence[float] = ()
    said: str = ""
    gap: float | None = None


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
    """Lines and areas over two axes; `described` is what a screen reader says."""

    described: str
    x: Axis
    y: Axis
    lines: Sequence[Line]

    @property
    def legend(self) -> Sequence[Line]:
        """The named lines, where there are several."""
        named = [line for line in self.lines if line.name]
        return named if len(named) > 1 else []


def hardest_chart(hardest: Mapping[str, Float32s]) -> Chart:
    """How similar each row's hardest in-batch negative is, in `random` batches and in the `plan`'s."""
    names = {"random": "random batches", "plan": "this plan"}
    every = np.concatenate([*hardest.values()])
    low = float(every.min())
    high = max(low + 1e-3, float(every.max()))
    edges = np.linspace(low, high, HISTOGRAM_BINS + 1)
    shares = {kind: np.histogram(values, edges)[0] / len(values) for kind, values in hardest.items()}
    means = {kind: float(values.mean(dtype=np.float64)) for kind, values in hardest.items()}
    top = 1.05 * max(float(share.max()) for share in shares.values())
    lines = [Line(f"area {kind}", _area(edges, share), names[kind]) for kind, share in shares.items()]
    lines += [Line(f"mean {kind}", [(mean, 0.0), (mean, top)], said=f"mean {mean:.3f}") for kind, mean in means.items()]
    title = "similarity of the hardest negative"
    said = ", ".join(f"{kind} {mean:.3f} on average" for kind, mean in means.items())
    return Chart(f"{title.capitalize()}: {said}", Axis(title, low, high), Axis("rows", 0.0, top, "{:.0%}"), lines)


def batch_chart(losses: Floats, hard: Bools, random_mean: float) -> Chart:
    """Mean loss of each batch in training's order, those without a hard pair apart; many batches become ranges."""
    steps = min(len(losses), MOST_STEPS)
    groups = np.array_split(losses, steps)
    edges = np.cumsum([0, *map(len, groups)])
    lowest, mean, highest = (np.array([take(group) for group in groups]) for take in (np.min, np.mean, np.max))
    some = np.array([group.any() for group in np.array_split(hard, steps)])
    lines = [Line("columns plan", _area(edges, np.where(some, mean, 0.0)), "with hard pairs")]
    if not some.all():
        lines.append(Line("columns none", _area(edges, np.where(some, 0.0, mean)), "without a hard pair"))
    if steps < len(losses):
        lines.append(Line("range", [*_steps(edges, highest), *reversed(_steps(edges, lowest))]))
    x = Axis("batch", 0.0, float(len(losses)), "{:,.0f}")
    random = [(x.low, random_mean), (x.high, random_mean)]
    lines.append(Line("mean random", random, said=f"random batches {random_mean:.3f}"))
    said = f"Loss of {len(losses):,} batches, from {losses.min():.3f} to {losses.max():.3f} nats"
    top = 1.05 * max(float(losses.max()), random_mean)
    return Chart(f"{said}; random batches {random_mean:.3f}", x, Axis("nats", 0.0, top), lines)


def loss_marks(report: GapReport) -> list[Mark]:
    """Random batches, the plan and the oracle on the way to all pairs, by their loss; the gap is the plan's, if any."""
    loss, gap = report.loss, report.gap
    marks = [Mark("random batches", "random", loss.random_mean, gap=gap.random_mean if gap.plan is None else None)]
    if gap.plan is not None:
        marks.append(Mark("this plan", "plan", loss.plan, gap=gap.plan))
    marks.append(Mark("oracle", "oracle", loss.global_ - gap.oracle))
    return [*sorted(marks, key=lambda mark: mark.value), Mark("all pairs", "global", loss.global_)]


def _steps(edges: Array, values: Floats) -> Points:
    """A level line from each edge to the next."""
    return list(zip(np.repeat(edges, 2)[1:-1].tolist(), np.repeat(values, 2).tolist(), strict=True))


def _area(edges: Array, values: Floats) -> Points:
    """The same, with its two ends taken down to 0."""
    return [(float(edges[0]), 0.0), *_steps(edges, values), (float(edges[-1]), 0.0)]
