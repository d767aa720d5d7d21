"""A report as one page: no script, no address outside it, every name escaped."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from gcbs_cli import __version__
from gcbs_cli.reports.details import ReportDetails
from gcbs_cli.reports.figures import FIGURES
from gcbs_cli.reports.headline import headline, lead
from gcbs_cli.reports.page import charts
from gcbs_cli.reports.schema import GapReport

LISTED_BATCHES = 5
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


def report_page(
    report: GapReport,
    details: ReportDetails,
    *,
    grid: Sequence[GapReport],
    names: str,
    facts: Facts,
    names_of: Callable[[Sequence[int]], Mapping[int, str]],
    warnings: Sequence[str] = (),
) -> str:
    """The page as HTML, complete in itself.

    report: the first that was asked for; grid: the same at other temperatures and batch sizes. names: of the plan and
    the inputs; names_of: the names of these rows, where the input has any; facts: settings, inputs and hashes.
    """
    batches = _listed(details, report.batch_size)
    rows = [row for suspect in details.suspects for row in suspect.rows]
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
        details=details,
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


def _listed(details: ReportDetails, size: int) -> dict[str, list[ListedBatch]]:
    """The batches of the plan with the highest and the lowest loss."""
    losses, perm = details.batch_losses, details.perm
    if losses is None or perm is None:
        return {}
    order = np.argsort(losses, kind="stable")
    chosen = {"Hardest batches": order[::-1][:LISTED_BATCHES], "Easiest batches": order[:LISTED_BATCHES]}
    batches = {
        number: ListedBatch(number, float(losses[number]), members[:MOST_ROWS].tolist(), len(members))
        for number in {int(one) for group in chosen.values() for one in group}
        for members in [perm[number * size : (number + 1) * size]]
    }
    return {caption: [batches[int(number)] for number in group] for caption, group in chosen.items()}


def flat(values: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """Nested values as lines: the path with dots, and the value as text."""
    found = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += flat(value, f"{prefix}{name}.")
        else:
            found.append((prefix + name, show(value, ".6g" if isinstance(value, float) else "")))
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
