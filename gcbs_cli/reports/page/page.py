"""A report as one page: no script, no address outside it, every name escaped."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray

from gcbs_cli import __version__
from gcbs_cli.data.pairs import pair_values
from gcbs_cli.graph.measures import batches_of
from gcbs_cli.products.suspects import SuspectPairs
from gcbs_cli.reports.build import Measured, random_order
from gcbs_cli.reports.figures import FIGURES
from gcbs_cli.reports.headline import headline, lead
from gcbs_cli.reports.in_batch import batch_sums
from gcbs_cli.reports.page import charts
from gcbs_cli.reports.page.pictures import pictures
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.report import Loss, LossKind

LISTED_BATCHES = 5
EXAMPLES = 12
MOST_ROWS = 256
"""Of a batch that are named."""

Facts = Sequence[tuple[str, Sequence[tuple[str, str]]]]
"""Groups of names and values."""


@dataclass(frozen=True)
class ListedBatch:
    """A batch with its loss and its first rows."""

    number: int
    loss: float
    rows: Sequence[int]
    size: int


@dataclass(frozen=True)
class Suspect:
    """One suspected false negative in a planned batch: two rows, s_ij, s_ji and the similarities to their own."""

    rows: tuple[int, int]
    batch: int
    similarities: tuple[float, float]
    own: tuple[float, float]


def report_page(
    measured: Measured,
    *,
    grid: Sequence[GapReport],
    names: str,
    facts: Facts,
    names_of: Callable[[Sequence[int]], Mapping[int, str]],
    warnings: Sequence[str] = (),
) -> str:
    """The page as HTML, complete in itself.

    measured: the first report that was asked for; grid: the same at other temperatures and batch sizes.
    names: of the plan and the inputs; names_of: the names of these rows, where the input has any; facts: settings,
    inputs and hashes.
    """
    report, inputs = measured.report, measured.inputs
    batches, suspects = _listed(measured), suspect_examples(measured)
    rows = [row for suspect in suspects for row in suspect.rows]
    rows += [row for group in batches.values() for batch in group for row in batch.rows]
    named = names_of(rows)
    same = [other for other in grid if other.loss_kind == grid[0].loss_kind]
    temperatures = sorted({other.temperature for other in same})
    return render(
        "report.html",
        title=f"gcbs report: {names}",
        headline=headline(report),
        lead=lead(report),
        report=report,
        trials=measured.trial_losses,
        pictures=pictures(measured),
        hardest=hardest_in_order(measured, random_order(inputs, 0)),
        planned_hardest=None if measured.perm is None else hardest_in_order(measured, measured.perm),
        batch_losses=_finite_losses(measured),
        suspects=suspects,
        warnings=warnings,
        facts=facts,
        figures={figure.path: figure for figure in FIGURES},
        timings=flat(report.timings, "timings."),
        batches=batches,
        row_name=lambda row: f"{row} ({named[row]})" if row in named else f"{row}",
        grid={(other.batch_size, other.temperature): other for other in same},
        temperatures=temperatures,
        temperature_names=[f"temperature {temperature:g}" for temperature in temperatures],
        several_losses=len(same) < len(grid),
        charts=charts,
    )


def hardest_in_order(measured: Measured, perm: NDArray[np.int64]) -> NDArray[np.float32]:
    """(N,) each row's most similar negative (x→y) in its batch of an order; −inf in a batch of one."""
    return batch_sums(
        measured.inputs.pair, perm, measured.report.batch_size, [], SuspectPairs.none(), Loss(LossKind.INFONCE)
    ).hardest[0, 0]


def _finite_losses(measured: Measured) -> NDArray[np.float64]:
    """The plan's (B,) batch losses without a short batch that is dropped; empty without a plan."""
    return measured.batch_losses[np.isfinite(measured.batch_losses)]


def _listed(measured: Measured) -> dict[str, list[ListedBatch]]:
    """The batches of the plan with the highest and the lowest loss."""
    losses, perm, size = _finite_losses(measured), measured.perm, measured.report.batch_size
    if perm is None:
        return {}
    order = np.argsort(losses, kind="stable")
    chosen = {"Hardest batches": order[::-1][:LISTED_BATCHES], "Easiest batches": order[:LISTED_BATCHES]}
    batches = {
        number: ListedBatch(number, float(losses[number]), members[:MOST_ROWS].tolist(), len(members))
        for number in {int(one) for group in chosen.values() for one in group}
        for members in [perm[number * size : (number + 1) * size]]
    }
    return {caption: [batches[int(number)] for number in group] for caption, group in chosen.items()}


def suspect_examples(measured: Measured) -> list[Suspect]:
    """The suspected pairs of the plan that come closest to, or exceed, the similarity of their own positives."""
    inputs, perm = measured.inputs, measured.perm
    if perm is None:
        return []
    batch_of_row = batches_of(perm, measured.report.batch_size, drop_last=inputs.settings.drop_last)
    inside = inputs.suspects.in_batches(batch_of_row)
    there = pair_values(inputs.pair, inside.lower, inside.higher)
    back = pair_values(inputs.pair, inside.higher, inside.lower)
    most = np.argsort(-np.maximum(there, back), kind="stable")[:EXAMPLES]
    return [
        Suspect((i, j), int(batch_of_row[i]), (s_ij, s_ji), (float(inputs.diagonal[i]), float(inputs.diagonal[j])))
        for i, j, s_ij, s_ji in zip(
            *(values[most].tolist() for values in (inside.lower, inside.higher, there, back)), strict=True
        )
    ]


def flat(values: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """Nested values as lines: the path with dots, and the value as text."""
    found = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += flat(value, f"{prefix}{name}.")
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            found.append((prefix + name, show(text, ".6g" if isinstance(value, float) else "")))
    return found


def show(value: object, form: str) -> str:
    """The value in this format, a dash for None."""
    return "–" if value is None else format(value, form)


def render(template: str, **values: object) -> str:
    """One of the templates, filled in."""
    return _environment().get_template(template).render(version=__version__, **values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("gcbs_cli.reports.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["show"] = show
    return environment
