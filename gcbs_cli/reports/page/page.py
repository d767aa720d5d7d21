"""A report as one page: no script, no address outside it, every name escaped."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from gcbs_cli import __version__
from gcbs_cli.graph.adjacency import Adjacency, batches_of
from gcbs_cli.reports.figures import FIGURES, shown_in
from gcbs_cli.reports.headline import headline, summary, suspects_warning
from gcbs_cli.reports.in_batch import batch_tables, random_orders
from gcbs_cli.reports.losses import Measured
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.report import Loss
from gcbs_cli.system.arrays import Ints

TEMPLATES = Environment(
    loader=PackageLoader("gcbs_cli.reports.page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters["show"] = format
EXAMPLES = 12
SHARES = np.linspace(0.0, 1.0, 101)
"""Shares of a set of values, in rising order, at which its curve has points."""
MOST_TICKS = 5
LEAST_RANGE = 1e-3
"""The least range of an axis, so that roundings do not look like differences."""
NAMES = {"random": "random batches", "plan": "this plan", "oracle": "oracle", "global": "all pairs"}


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
    """The range of an axis, and what its numbers are."""

    low: float
    high: float
    name: str = ""

    def place(self, value: float) -> float:
        """How far from low to high, in per cent; the middle where low is high."""
        return 100.0 * (value - self.low) / (self.high - self.low) if self.high > self.low else 50.0

    def ticks(self) -> list[tuple[float, str]]:
        """Some round numbers with their places."""
        raw = (self.high - self.low) / MOST_TICKS
        power = 10.0 ** floor(log10(raw))
        step = power * next(m for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
        numbers = range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1)
        return [(self.place(number * step), f"{round(number * step, 10):g}") for number in numbers]


@dataclass(frozen=True)
class Chart:
    """How the losses of batches are spread: by what they are of, their quantiles at `SHARES`."""

    axis: Axis
    curves: Mapping[str, Sequence[float]]


def loss_chart(measured: Measured) -> Chart:
    """The losses of the batches of a random order, and of the plan."""
    orders = {"random": measured.of_random[0]}
    if measured.perm is not None:
        orders["plan"] = measured.of_plan
    curves = {kind: np.quantile(figures["batch_losses"], SHARES).tolist() for kind, figures in orders.items()}
    low = min(curve[0] for curve in curves.values())
    high = max(curve[-1] for curve in curves.values())
    return Chart(Axis(low, max(high, low + LEAST_RANGE), measured.report.unit), curves)


def loss_marks(report: GapReport) -> list[Mark]:
    """Random batches, the plan, if any, and the oracle on the way to all pairs, by their loss."""
    loss = report.loss
    losses = {
        "random": loss.random_mean,
        "plan": loss.plan,
        "oracle": loss.global_ - report.gap.oracle,
        "global": loss.global_,
    }
    marks = [Mark(NAMES[kind], kind, value) for kind, value in losses.items() if value is not None]
    return sorted(marks, key=lambda mark: mark.value)


def report_page(
    reports: Sequence[Measured],
    names: str,
    facts: Mapping[str, Mapping[str, object]],
    names_of: Callable[[Sequence[int]], Mapping[int, str]],
    texts_of: Callable[[Sequence[int]], Mapping[int, Sequence[str]]],
    hint: str,
) -> str:
    """The page on the first of the reports as HTML, complete in itself, with a line for each of the others.

    names: of the plan and the inputs; facts: settings, inputs and hashes, by what they are of; names_of, texts_of: the
    names of these rows and the texts of both their sides, where they are known; hint: what to do about a warning.
    """
    measured = reports[0]
    report = measured.report
    gap_reports = [each.report for each in reports]
    suspects = suspect_examples(measured)
    suspected_rows = [row for suspect in suspects for row in suspect.rows]
    return render(
        "report.html",
        title=f"gcbs report: {names}",
        headline=headline(report),
        summary=summary(report),
        report=report,
        marks=loss_marks(report),
        trials=[order["loss.plan"] for order in measured.of_random],
        pictures=pictures(measured),
        losses=loss_chart(measured),
        suspects=suspects,
        names=names_of(suspected_rows),
        texts=texts_of(suspected_rows),
        hint=hint,
        reports=gap_reports,
        warning=suspects_warning(gap_reports),
        facts={title: json.dumps(values, indent=2, ensure_ascii=False, default=str) for title, values in facts.items()},
        figures=FIGURES,
        kinds=NAMES,
        compared=shown_in("many"),
    )


@dataclass(frozen=True)
class SuspectExample:
    """A suspected pair of rows (i, j) in a batch of the plan: s_ij and s_ji, and s_ii and s_jj."""

    rows: tuple[int, int]
    batch: int
    similarities: tuple[float, float]
    own: tuple[float, float]


def suspect_examples(measured: Measured) -> list[SuspectExample]:
    """The suspected pairs in the plan's batches that are most similar."""
    inputs, perm, size = measured.inputs, measured.perm, measured.report.batch_size
    if perm is None:
        return []
    counted = perm[: len(perm) - len(perm) % size] if inputs.settings.drop_last else perm
    ends, similarities = [np.empty((0, 2), np.int64)], [np.empty((0, 2))]
    for tables in batch_tables(inputs.pairs, counted, size, Loss("symmetric"), measured.suspicion):
        entries = np.nonzero(np.triu(tables.suspects))
        batch, *places = entries
        ends.append(np.column_stack([tables.rows[batch, place] for place in places]))
        similarities.append(np.column_stack([table[entries] for table in tables.directions]))
    rows, values = np.concatenate(ends), np.concatenate(similarities)
    most = np.argsort(-values.max(axis=1), kind="stable")[:EXAMPLES]
    batch_of_row = batches_of(perm, size)
    columns = rows, batch_of_row[rows[:, 0]], values, inputs.diagonal[rows]
    return [SuspectExample(*example) for example in zip(*(column[most].tolist() for column in columns), strict=True)]


def render(template: str, **values: object) -> str:
    """One of the templates, filled in."""
    return TEMPLATES.get_template(template).render(version=__version__, **values)


CELLS = 144
"""Cells on a side of a picture: a million rows fit as well, and more cells could not be seen on a page."""
ZOOM_BATCHES = 12
LEAST_SHARE = 1 / 30
"""Share of a side from which a batch is plain to see in the picture of all rows."""
SHADES = 10


@dataclass(frozen=True)
class Picture:
    """The reordered matrix. side, cell: rows of it, and of one of its cells; paths: through marked cells, by opacity;
    batch: rows of those that are outlined, 0 for none.
    """

    caption: str
    side: int
    cell: float
    paths: Mapping[float, str]
    batch: int


def pictures(measured: Measured) -> list[Picture]:
    """The hard pairs before and after: in all rows, and, if batches are too small to see there, in some batches."""
    inputs, size = measured.inputs, measured.report.batch_size
    rows = inputs.pairs.rows
    orders = {"before (the input's order)": np.arange(rows)}
    if measured.perm is None:
        orders["in a random order"] = next(random_orders(rows, inputs.settings.seed))
    else:
        orders["after (this plan)"] = measured.perm
    windows = [(0, rows)]
    if size < LEAST_SHARE * rows:
        middle = (rows // size - ZOOM_BATCHES) // 2 * size
        windows.append((middle, middle + ZOOM_BATCHES * size))
    panels = []
    for start, stop in windows:
        counts = [density(inputs.graph, perm[start:stop]) for perm in orders.values()]
        most = max(part.max() for part in counts)
        side = stop - start
        for name, part in zip(orders, counts, strict=True):
            caption = f"{name}, rows {start:,} to {stop - 1:,}"
            batch = size if size >= LEAST_SHARE * side else 0
            panels.append(Picture(caption, side, side / len(part), shades(part, most), batch))
    return panels


def density(graph: Adjacency, perm: Ints) -> Ints:
    """Count the graph's entries between some rows, in square cells of the matrix in their order."""
    cells = min(CELLS, len(perm))
    cell = np.full(graph.nodes, cells)  # one more, for entries of other rows
    cell[perm] = np.arange(len(perm)) * cells // len(perm)
    places = cell[graph.row_of_entry()] * (cells + 1) + cell[graph.indices]
    return np.bincount(places, minlength=(cells + 1) ** 2).reshape(cells + 1, cells + 1)[:-1, :-1]


def shades(counts: Ints, most: int) -> dict[float, str]:
    """SVG paths through the cells, by their opacity: it rises with the logarithm of the count, to 1 at `most`."""
    levels = np.ceil(SHADES * (np.log1p(counts) / np.log1p(max(most, 1))))  # 1 at most itself, whatever is rounded
    return {
        level / SHADES: "".join(f"M{column} {row}h1" for row, column in np.argwhere(levels == level).tolist())
        for level in range(1, SHADES + 1)
    }
