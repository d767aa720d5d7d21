"""What the charts of a report show."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.reports.details import Density, ReportDetails
from gcbs_cli.reports.page.drawing import Axis, Bar, Bars, Drawing, Line, Lines, Points, shape
from gcbs_cli.reports.page.png import density_uri, full_count
from gcbs_cli.reports.schema import GapReport

PICTURE = 300.0
SMALLEST_BLOCK = 3.0
"""Pixels below which the outline of a batch would hide what is in it."""
PLAIN_BLOCK = 10.0
"""Pixels from which on a batch is plain to see in the picture of all rows."""
HISTOGRAM_BINS = 48
MOST_STEPS = 240
COLOURS = 4
"""Classes of lines that the style sheet tells apart."""


def loss_bars(report: GapReport, trial_losses: NDArray[np.float64]) -> Bars:
    """L_global, L_train of plan and random batches, and the oracle's, with every trial as a mark."""
    bars = [
        Bar("all pairs (L_global)", report.loss.global_, "global"),
        Bar("oracle, unreachable", report.loss.global_ - report.gap.oracle, "oracle"),
    ]
    if report.loss.plan is not None:
        bars.append(Bar("this plan (L_train)", report.loss.plan, "plan"))
    bars.append(Bar("random batches (L_train)", report.loss.random_mean, "random", trial_losses.tolist()))
    return Bars("Losses in nats", bars)


def hardest_lines(details: ReportDetails) -> Lines:
    """How similar each row's hardest in-batch negative is, in random batches and in the plan's."""
    orders = [("random", "random batches", details.random)]
    orders += [("plan", "this plan", details.plan)] if details.plan else []
    finite = [(kind, name, order.hardest[np.isfinite(order.hardest)]) for kind, name, order in orders]
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


def pictures(details: ReportDetails, batch_size: int) -> list[tuple[str, Drawing]]:
    """Captioned pictures of the hard pairs: all rows before and after, then both near the middle."""
    orders = [("before (the input's order)", details.identity)]
    orders.append(("after (this plan)", details.plan) if details.plan else ("in a random order", details.random))
    every = [(f"{name}, all {order.density.stop:,} rows", order.density) for name, order in orders]
    zoomed = [
        (f"{name}, rows {order.zoom.start:,} to {order.zoom.stop - 1:,}, each square a batch", order.zoom)
        for name, order in orders
        if batch_size * PICTURE / order.density.stop < PLAIN_BLOCK
    ]
    found = []
    for group in (every, zoomed):
        full = full_count(*(density.counts for _, density in group))
        found += [(caption, density_picture(density, batch_size, full, caption)) for caption, density in group]
    return found


def density_picture(density: Density, batch_size: int, full: float, caption: str) -> Drawing:
    """The reordered matrix in cells, with the batches outlined where they are large enough to be seen."""
    length = density.stop - density.start
    scale = PICTURE / length
    shapes = [shape("image", "pixels", href=density_uri(density.counts, full), width=PICTURE, height=PICTURE)]
    for start in range(0, length, batch_size) if batch_size * scale >= SMALLEST_BLOCK else ():
        side = scale * min(batch_size, length - start)
        shapes.append(shape("rect", "block", x=scale * start, y=scale * start, width=side, height=side))
    shapes.append(shape("rect", "border", x=0, y=0, width=PICTURE, height=PICTURE))
    return Drawing(f"Hard pairs {caption}", PICTURE, PICTURE, shapes)
