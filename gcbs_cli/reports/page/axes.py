"""Scales, ticks and the frame that the charts share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from gcbs_cli.reports.page.markup import Markup, element

Scale = Callable[[float], float]

WIDTH = 640.0
NARROW = 360.0
"""Of the drawing for a phone, so that its letters keep their size there."""
LEFT, RIGHT, TOP, BOTTOM = 58.0, 14.0, 12.0, 42.0


def linear(low: float, high: float, start: float, stop: float) -> Scale:
    """From [low, high] to [start, stop]; the middle where low is high."""
    if high <= low:
        return lambda _: (start + stop) / 2
    return lambda value: start + (value - low) / (high - low) * (stop - start)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers within [low, high], about as many as asked."""
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** floor(log10(raw))
    step = next(m for m in (1, 2, 5, 10) if m * power >= raw * 0.999) * power
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def tick_count(width: float) -> int:
    """About how many ticks fit below a chart of this width."""
    return 6 if width >= WIDTH else 4


@dataclass(frozen=True)
class Frame:
    """The plotting area: where x and y values lie, and the room they take."""

    x: Scale
    y: Scale
    width: float
    height: float

    @staticmethod
    def over(x: tuple[float, float], y: tuple[float, float], width: float, height: float = 260.0) -> "Frame":
        """A frame for these ranges."""
        return Frame(linear(*x, LEFT, width - RIGHT), linear(*y, height - BOTTOM, TOP), width, height)

    def axes(
        self,
        x_ticks: Sequence[tuple[float, str]],
        y_ticks: Sequence[tuple[float, str]],
        x_name: str,
        y_name: str,
    ) -> Markup:
        """Grid lines with their labels and the names of both axes."""
        parts = []
        for value, label in y_ticks:
            y = self.y(value)
            parts.append(element("line", x1=LEFT, x2=self.width - RIGHT, y1=y, y2=y, class_="grid"))
            parts.append(element("text", label, x=LEFT - 6, y=y + 4, text_anchor="end"))
        for value, label in x_ticks:
            parts.append(element("text", label, x=self.x(value), y=self.height - BOTTOM + 17, text_anchor="middle"))
        middle = (LEFT + self.width - RIGHT) / 2
        parts.append(element("text", x_name, x=middle, y=self.height - 6, text_anchor="middle", class_="axis"))
        turned = f"rotate(-90 13 {self.height / 2:g})"
        parts.append(
            element("text", y_name, x=13.0, y=self.height / 2, text_anchor="middle", transform=turned, class_="axis")
        )
        return element("g", *parts)


def labelled(values: Sequence[float]) -> list[tuple[float, str]]:
    """Ticks with their numbers as labels."""
    return [
        (value, f"{value:g}" if abs(value) < 10_000 else f"{value:,.0f}") for value in (round(v, 10) for v in values)
    ]


def drawing(described: str, width: float, height: float, *parts: str) -> Markup:
    """An SVG as wide as its place; `described` is what a screen reader says."""
    return element(
        "svg",
        element("title", described),
        *parts,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=described,
    )
