"""What the charts of a report show."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.reports.page.drawing import Axis, Bar, Bars, Line, Lines, Points
from gcbs_cli.reports.schema import GapReport

HISTOGRAM_BINS = 48
MOST_STEPS = 240
COLOURS = 4
"""Classes of lines that the style sheet tells apart."""


def loss_bars(report: GapReport, trial_losses: Sequence[float]) -> Bars:
    """L_global, L_train of plan and random batches, and the oracle's, with every trial as a mark."""
    bars = [
        Bar("all pairs (L_global)", report.loss.global_, "global"),
        Bar("oracle, unreachable", report.loss.global_ - report.gap.oracle, "oracle"),
    ]
    if report.loss.plan is not None:
        bars.append(Bar("this plan (L_train)", report.loss.plan, "plan"))
    bars.append(Bar("random batches (L_train)", report.loss.random_mean, "random", trial_losses))
    return Bars("Losses in nats", bars)


def hardest_lines(random: NDArray[np.float32], plan: NDArray[np.float32] | None) -> Lines:
    """How similar each row's hardest in-batch negative is, in random batches and in the plan's."""
    orders = [("random", "random batches", random)] + ([] if plan is None else [("plan", "this plan", plan)])
    finite = [(kind, name, values[np.isfinite(values)]) for kind, name, values in orders]
    low = min(float(values.min()) for *_, values in finite)
    high = max(low + 1e-3, *(float(values.max()) for *_, values in finite))
    edges = np.linspace(low, high, HISTOGRAM_BINS + 1)
    shares = [np.histogram(values, edges)[0] / max(len(values), 1) for *_, values in finite]
    top = 1.05 * max(float(share.max()) for share in shares)
    lines = [
        Line(f"area {kind}", area(edges, share), name) for (kind, name, _), share in zip(finite, shares, strict=True)
    ]
    means = [(kind, finite_mean(values)) for kind, _, values in finite]
    lines += [Line(f"mean {kind}", [(mean, 0.0), (mean, top)]) for kind, mean in means]
    title = "similarity of the hardest negative in the batch"
    said = ", ".join(f"{kind} {mean:.3f} on average" for kind, mean in means)
    return Lines(f"{title.capitalize()}: {said}", Axis(title, low, high), Axis("rows", 0.0, top, "{:.0%}"), lines)


def finite_mean(values: NDArray[np.float32]) -> float:
    """The mean over rows whose batch holds another."""
    return float(values[np.isfinite(values)].mean(dtype=np.float64))


def batch_lines(losses: NDArray[np.float64], random_mean: float) -> Lines:
    """Mean loss of each batch in the order of training; many batches become the range of neighbours."""
    groups = np.array_split(losses, min(len(losses), MOST_STEPS))
    edges = np.cumsum([0, *map(len, groups)])
    lowest, mean, highest = (np.array([take(group) for group in groups]) for take in (np.min, np.mean, np.max))
    top = 1.05 * max(float(losses.max()), random_mean)
    lines = [Line("columns plan", area(edges, mean))]
    if len(groups) < len(losses):
        lines.append(Line("range", [*steps(edges, highest), *reversed(steps(edges, lowest))]))
    lines.append(Line("mean random", [(0.0, random_mean), (float(len(losses)), random_mean)]))
    said = f"Loss of {len(losses):,} batches, from {losses.min():.3f} to {losses.max():.3f} nats"
    x = Axis("batch", 0.0, float(len(losses)), "{:,.0f}")
    return Lines(f"{said}; random batches {random_mean:.3f}", x, Axis("nats", 0.0, top), lines, height=230.0)


def reduction_lines(grid: Mapping[tuple[int, float], GapReport]) -> Lines | None:
    """Gap reduction by temperature, a line for each batch size; None for a single temperature."""
    sizes, temperatures = (sorted(set(values)) for values in zip(*grid, strict=True))
    if len(temperatures) < 2:
        return None
    series = {f"k = {size:,}": [grid[size, t].gap.reduction for t in temperatures] for size in sizes}
    x = Axis("temperature", 0.0, len(temperatures) - 1.0, labels=[f"{t:g}" for t in temperatures])
    return courses("Gap reduction", x, "gap reduction", series, "{:.0%}")


def courses(
    title: str, x: Axis, unit: str, series: Mapping[str, Sequence[float | None]], form: str = "{:g}"
) -> Lines | None:
    """A named line with dots for each series; None where no value is known."""
    lines: list[Line] = []
    ends = []
    for name, values in series.items():
        points = [(float(place), value) for place, value in enumerate(values) if value is not None]
        if points:
            ends.append(f"{name} from {points[0][1]:.4g} to {points[-1][1]:.4g}")
            lines.append(Line(f"line line-{len(lines) % COLOURS}", points, name, dots=True))
    if not lines:
        return None
    known = [value for line in lines for _, value in line.points]
    low, high = min(0.0, *known), max(0.0, *known)
    high += 0.05 * (high - low) or 1.0
    return Lines(f"{title}: {', '.join(ends)}", x, Axis(unit, low, high, form), lines)


def steps(edges: NDArray[np.number], values: NDArray[np.float64]) -> Points:
    """A level line from each edge to the next."""
    return list(zip(np.repeat(edges, 2)[1:-1].tolist(), np.repeat(values, 2).tolist(), strict=True))


def area(edges: NDArray[np.number], values: NDArray[np.float64]) -> Points:
    """The same, with its two ends taken down to 0."""
    return [(float(edges[0]), 0.0), *steps(edges, values), (float(edges[-1]), 0.0)]
