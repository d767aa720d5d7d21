"""The three kinds of charts: bars, lines and a picture, as shapes that a template writes as SVG."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

WIDTH, NARROW = 640.0, 360.0
"""Of a drawing on a wide screen, and on a phone, so that its letters keep their size there."""
LEFT, RIGHT, TOP, BOTTOM = 58.0, 14.0, 12.0, 42.0
BAR, BAR_GAP, BAR_LABEL, BAR_VALUE = 24.0, 14.0, 176.0, 64.0

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Shape:
    """One SVG element."""

    name: str
    attributes: Mapping[str, str]
    text: str = ""


@dataclass(frozen=True)
class Drawing:
    """An SVG as wide as its place; `described` is what a screen reader says."""

    described: str
    width: float
    height: float
    shapes: Sequence[Shape]


def shape(name: str, kind: str, text: str = "", **attributes: str | float) -> Shape:
    """An element of class `kind`, its coordinates rounded to a hundredth of a pixel."""
    shown = {key: value if isinstance(value, str) else f"{round(value, 2):g}" for key, value in attributes.items()}
    return Shape(name, {"class": kind, **shown}, text)


@dataclass(frozen=True)
class Bar:
    """A bar from 0 to `value`, with a mark at each of `marks`."""

    name: str
    value: float
    kind: str
    marks: Sequence[float] = ()


@dataclass(frozen=True)
class Bars:
    """Horizontal bars with their names before and their values behind them."""

    described: str
    bars: Sequence[Bar]

    def draw(self, width: float) -> Drawing:
        """The chart at this width."""
        longest = max(max(bar.value, *bar.marks, 1e-9) for bar in self.bars)
        scale = (width - BAR_VALUE - BAR_LABEL) / longest
        shapes = []
        for number, bar in enumerate(self.bars):
            top = 8 + number * (BAR + BAR_GAP)
            middle, stop = top + BAR / 2 + 4, BAR_LABEL + scale * max(bar.value, 0.0)
            shapes.append(shape("text", "end", bar.name, x=BAR_LABEL - 8, y=middle))
            shapes.append(shape("rect", bar.kind, x=BAR_LABEL, y=top, width=stop - BAR_LABEL, height=BAR))
            for mark in bar.marks:
                x = BAR_LABEL + scale * mark
                shapes.append(shape("line", "trial", x1=x, x2=x, y1=top - 3, y2=top + BAR + 3))
                stop = max(stop, x)
            shapes.append(shape("text", "value", f"{bar.value:.3f}", x=stop + 7, y=middle))
        said = ", ".join(f"{bar.name} {bar.value:.3f}" for bar in self.bars)
        return Drawing(f"{self.described}: {said}", width, 8 + len(self.bars) * (BAR + BAR_GAP), shapes)


@dataclass(frozen=True)
class Line:
    """Points joined by a line, or the outline of an area where the style sheet fills `kind`."""

    kind: str
    points: Points
    name: str = ""
    dots: bool = False


@dataclass(frozen=True)
class Axis:
    """The range of an axis and how its ticks are written; with `labels` they stand at 0, 1, 2 …"""

    name: str
    low: float
    high: float
    form: str = "{:g}"
    labels: Sequence[str] = ()

    def ticks(self, about: int) -> list[tuple[float, str]]:
        """About as many places as asked, with their labels."""
        if self.labels:
            every = ceil(len(self.labels) / (2 * about))
            return [(float(place), self.labels[place]) for place in range(0, len(self.labels), every)]
        return [(value, self.form.format(round(value, 10))) for value in round_numbers(self.low, self.high, about)]

    def scale(self, start: float, stop: float) -> Callable[[float], float]:
        """From [low, high] to [start, stop]; the middle where low is high."""
        length = self.high - self.low
        return lambda value: start + (stop - start) * ((value - self.low) / length if length > 0 else 0.5)


@dataclass(frozen=True)
class Lines:
    """Lines and areas over two axes."""

    described: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    height: float = 260.0

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        """The named lines, where there are several."""
        named = [(line.kind, line.name) for line in self.lines if line.name]
        return named if len(named) > 1 else []

    def draw(self, width: float) -> Drawing:
        """The chart at this width."""
        right, base = width - RIGHT, self.height - BOTTOM
        x, y = self.x.scale(LEFT, right), self.y.scale(base, TOP)
        shapes = []
        for value, label in self.y.ticks(5):
            shapes.append(shape("line", "grid", x1=LEFT, x2=right, y1=y(value), y2=y(value)))
            shapes.append(shape("text", "end", label, x=LEFT - 6, y=y(value) + 4))
        for value, label in self.x.ticks(6 if width >= WIDTH else 4):
            shapes.append(shape("text", "middle", label, x=x(value), y=base + 17))
        shapes.append(shape("text", "axis", self.x.name, x=(LEFT + right) / 2, y=self.height - 6))
        turned = f"rotate(-90 13 {self.height / 2:g})"
        shapes.append(shape("text", "axis", self.y.name, x=13, y=self.height / 2, transform=turned))
        for line in self.lines:
            points = [(x(along), y(up)) for along, up in line.points]
            shapes.append(shape("polyline", line.kind, points=" ".join(f"{a:.1f},{b:.1f}" for a, b in points)))
            shapes += [shape("circle", line.kind, cx=a, cy=b, r=3) for a, b in points if line.dots]
        return Drawing(self.described, width, self.height, shapes)


def round_numbers(low: float, high: float, about: int) -> list[float]:
    """Round numbers within [low, high], about as many as asked."""
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** floor(log10(raw))
    step = next(m for m in (1, 2, 5, 10) if m * power >= raw * 0.999) * power
    return [number * step for number in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]
