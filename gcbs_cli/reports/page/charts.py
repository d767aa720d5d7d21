"""The charts of a report: pure functions from figures to SVG."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.reports.details import Density, ReportDetails
from gcbs_cli.reports.page.axes import LEFT, RIGHT, Frame, drawing, labelled, linear, tick_count, ticks
from gcbs_cli.reports.page.markup import Markup, element, join
from gcbs_cli.reports.page.png import density_uri, full_count
from gcbs_cli.reports.schema import GapReport

PICTURE = 300.0
SMALLEST_BLOCK = 3.0
"""Pixels below which the outline of a batch would hide what is in it."""
PLAIN_BLOCK = 10.0
"""Pixels from which on a batch is plain to see in the picture of all rows."""
HISTOGRAM_BINS = 48
MOST_COLUMNS = 240
LINES = 4
"""Classes of lines that the style sheet tells apart."""


def loss_bars(report: GapReport, trial_losses: NDArray[np.float64], width: float) -> Markup:
    """L_global, L_train of plan and random batches, and the oracle's, with every trial as a mark."""
    bars = [("all pairs (L_global)", report.loss.global_, "global")]
    bars.append(("oracle, out of reach", report.loss.global_ - report.gap.oracle, "oracle"))
    if report.loss.plan is not None:
        bars.append(("this plan (L_train)", report.loss.plan, "plan"))
    bars.append(("random batches (L_train)", report.loss.random_mean, "random"))
    label, bar = 176.0, 26.0
    x = linear(0.0, max(max(value for _, value, _ in bars), float(trial_losses.max()), 1e-9), label, width - 64)
    parts: list[str] = []
    for number, (name, value, kind) in enumerate(bars):
        y = 8 + number * (bar + 14)
        parts.append(element("text", name, x=label - 8, y=y + bar / 2 + 4, text_anchor="end"))
        parts.append(element("rect", x=label, y=y, width=max(0.0, x(value) - label), height=bar, class_=kind))
        right = x(value)
        if kind == "random":
            parts += [
                element("line", x1=x(float(loss)), x2=x(float(loss)), y1=y - 3, y2=y + bar + 3, class_="trial")
                for loss in trial_losses
            ]
            right = max(right, x(float(trial_losses.max())))
        parts.append(element("text", f"{value:.3f}", x=right + 7, y=y + bar / 2 + 4, class_="value"))
    said = ", ".join(f"{name} {value:.3f}" for name, value, _ in bars)
    return drawing(f"Losses in nats: {said}", width, 8 + len(bars) * (bar + 14), *parts)


def density_picture(density: Density, batch_size: int, full: float, described: str) -> Markup:
    """The reordered matrix in cells, with the batches outlined where they are large enough to be seen."""
    length = density.stop - density.start
    scale = PICTURE / length
    blocks: list[str] = []
    if batch_size * scale >= SMALLEST_BLOCK:
        for start in range(0, length, batch_size):
            side = min(batch_size, length - start) * scale
            blocks.append(element("rect", x=start * scale, y=start * scale, width=side, height=side, class_="block"))
    image = element("image", href=density_uri(density.counts, full), width=PICTURE, height=PICTURE, class_="pixels")
    border = element("rect", x=0, y=0, width=PICTURE, height=PICTURE, class_="border")
    return drawing(described, PICTURE, PICTURE, image, *blocks, border)


def hardest_histogram(random: NDArray[np.float32], plan: NDArray[np.float32] | None, width: float) -> Markup:
    """How similar each row's hardest in-batch negative is, in random batches and in the plan's."""
    sides = [("random", random)] + ([("plan", plan)] if plan is not None else [])
    finite = [(kind, values[np.isfinite(values)]) for kind, values in sides]
    low = min(float(values.min()) for _, values in finite)
    high = max(float(values.max()) for _, values in finite)
    high = high if high > low else low + 1e-3
    edges = np.linspace(low, high, HISTOGRAM_BINS + 1)
    shares = [(kind, np.histogram(values, edges)[0] / max(len(values), 1)) for kind, values in finite]
    frame = Frame.over((low, high), (0.0, max(float(share.max()) for _, share in shares) * 1.05), width)
    areas = [element("path", d=_steps(frame, edges, share), class_=f"area {kind}") for kind, share in shares]
    y_high = max(float(share.max()) for _, share in shares)
    y_ticks = [(value, f"{value:.0%}") for value in ticks(0, y_high, 4)]
    means = ", ".join(f"{kind} {values.mean():.3f} on average" for kind, values in finite)
    return drawing(
        f"Similarity of the hardest negative in the batch: {means}",
        width,
        frame.height,
        frame.axes(
            labelled(ticks(low, high, tick_count(width))),
            y_ticks,
            "similarity of the hardest negative in the batch",
            "rows",
        ),
        *areas,
        *_means(frame, finite),
    )


def _means(frame: Frame, sides: Sequence[tuple[str, NDArray[np.float32]]]) -> list[Markup]:
    top, bottom = 12.0, frame.height - 42
    return [
        element("line", x1=frame.x(float(v.mean())), x2=frame.x(float(v.mean())), y1=top, y2=bottom, class_=f"mean {k}")
        for k, v in sides
    ]


def _steps(frame: Frame, edges: NDArray[np.float64], shares: NDArray[np.float64]) -> str:
    base = frame.y(0.0)
    points = [f"M{frame.x(float(edges[0])):.1f} {base:.1f}"]
    for left, right, share in zip(edges[:-1], edges[1:], shares, strict=True):
        y = frame.y(float(share))
        points.append(f"L{frame.x(float(left)):.1f} {y:.1f}L{frame.x(float(right)):.1f} {y:.1f}")
    return "".join(points) + f"L{frame.x(float(edges[-1])):.1f} {base:.1f}Z"


def batch_loss_columns(batch_losses: NDArray[np.float64], random_mean: float, width: float) -> Markup:
    """Mean loss of each batch in the order of training; many batches are drawn as the range of neighbours."""
    groups = np.array_split(batch_losses, min(len(batch_losses), MOST_COLUMNS))
    highest = max(float(batch_losses.max()), random_mean) * 1.05
    frame = Frame.over((0.0, float(len(batch_losses))), (0.0, highest), width, 230.0)
    parts: list[str] = []
    start = 0
    for group in groups:
        left, right = frame.x(start), frame.x(start + len(group))
        start += len(group)
        top, low, mean = (frame.y(float(value)) for value in (group.max(), group.min(), group.mean()))
        wide = max(right - left - (1.0 if right - left > 3 else 0.0), 0.8)
        base = frame.y(0.0)
        parts.append(element("rect", x=left, y=mean, width=wide, height=max(base - mean, 0.0), class_="plan"))
        if len(group) > 1:
            middle = (left + right) / 2
            parts.append(element("line", x1=middle, x2=middle, y1=top, y2=low, class_="range"))
    y = frame.y(random_mean)
    parts.append(element("line", x1=LEFT, x2=width - RIGHT, y1=y, y2=y, class_="mean random"))
    axes = frame.axes(
        labelled([t for t in ticks(0, len(batch_losses), tick_count(width)) if t == int(t)]),
        labelled(ticks(0, highest, 4)),
        "batch",
        "nats",
    )
    said = f"Loss of {len(batch_losses):,} batches, from {batch_losses.min():.3f} to {batch_losses.max():.3f} nats"
    return drawing(f"{said}; random batches {random_mean:.3f}", width, frame.height, axes, *parts)


def reduction_lines(reports: Sequence[GapReport], width: float) -> Markup | None:
    """Gap reduction against temperature, a line for each batch size; None where there are fewer than two points."""
    known = [(r.batch_size, r.temperature, r.gap.reduction) for r in reports if r.gap.reduction is not None]
    temperatures = sorted({temperature for _, temperature, _ in known})
    if len(temperatures) < 2:
        return None
    values = [value for _, _, value in known]
    frame = Frame.over((0.0, len(temperatures) - 1.0), (min(0.0, *values), max(0.01, *values) * 1.05), width, 230.0)
    sizes = sorted({size for size, _, _ in known})
    parts: list[str] = []
    for number, size in enumerate(sizes):
        points = sorted((temperatures.index(t), value) for k, t, value in known if k == size)
        line = " ".join(f"{frame.x(place):.1f},{frame.y(value):.1f}" for place, value in points)
        kind = f"line-{number % LINES}"
        parts.append(element("polyline", points=line, class_=f"line {kind}"))
        parts += [element("circle", cx=frame.x(p), cy=frame.y(v), r=3, class_=kind) for p, v in points]
    axes = frame.axes(
        [(place, f"{t:g}") for place, t in enumerate(temperatures)],
        [(v, f"{v:.0%}") for v in ticks(min(0.0, *values), max(0.01, *values), 4)],
        "temperature",
        "gap reduction",
    )
    return drawing(
        f"Gap reduction at temperatures {temperatures[0]:g} to {temperatures[-1]:g} for batches of "
        + ", ".join(map(str, sizes)),
        width,
        frame.height,
        axes,
        *parts,
    )


def line_legend(reports: Sequence[GapReport]) -> Markup:
    """Which line of `reduction_lines` is which batch size."""
    sizes = sorted({report.batch_size for report in reports})
    marks = [
        element("span", element("span", class_=f"key line-{number % LINES}"), f" k = {size:,}", class_="legend")
        for number, size in enumerate(sizes)
    ]
    return join(*marks)


def bound_bars(report: GapReport, width: float) -> Markup | None:
    """The plan's gap beside its two upper bounds."""
    bounds, gap = report.bounds, report.gap.plan
    if gap is None or bounds.translation is None or bounds.logsumexp is None:
        return None
    bars = [("gap of this plan", gap, "plan"), ("translation bound", bounds.translation, "oracle")]
    bars.append(("log-sum-exp bound", bounds.logsumexp, "oracle"))
    label, bar = 176.0, 20.0
    x = linear(0.0, max(max(value for _, value, _ in bars), 1e-9), label, width - 64)
    parts: list[str] = []
    for number, (name, value, kind) in enumerate(bars):
        y = 6 + number * (bar + 10)
        parts.append(element("text", name, x=label - 8, y=y + bar / 2 + 4, text_anchor="end"))
        parts.append(element("rect", x=label, y=y, width=max(x(value) - label, 0.0), height=bar, class_=kind))
        parts.append(element("text", f"{value:.3f}", x=x(value) + 7, y=y + bar / 2 + 4, class_="value"))
    said = ", ".join(f"{name} {value:.3f}" for name, value, _ in bars)
    return drawing(f"In nats: {said}", width, 6 + len(bars) * (bar + 10), *parts)


def pictures(details: ReportDetails, batch_size: int) -> list[tuple[str, Markup]]:
    """Captioned pictures of the thresholded matrix: before and after, then both near the middle."""
    orders = [("before (the input's order)", details.identity)]
    orders.append(("after (this plan)", details.plan) if details.plan else ("in a random order", details.random))
    found = []
    full = full_count(*(order.density.counts for _, order in orders))
    for name, order in orders:
        caption = f"{name}, all {order.density.stop:,} rows"
        found.append((caption, density_picture(order.density, batch_size, full, f"Hard pairs {caption}")))
    full = full_count(*(order.zoom.counts for _, order in orders))
    for name, order in orders:
        part = order.zoom
        if batch_size * PICTURE / order.density.stop < PLAIN_BLOCK:
            caption = f"{name}, rows {part.start:,} to {part.stop - 1:,}, each square a batch"
            found.append((caption, density_picture(part, batch_size, full, f"Hard pairs {caption}")))
    return found
