"""A report as one page: no script, no address outside it, every name escaped."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from gcbs_cli import __version__
from gcbs_cli.data.pairs import pair_values
from gcbs_cli.graph.adjacency import batches_of
from gcbs_cli.products.suspects import SuspectPairs
from gcbs_cli.reports.figures import FIGURES, shown_in
from gcbs_cli.reports.headline import headline, lead, summary, suspects_warning
from gcbs_cli.reports.in_batch import batch_sums, random_order
from gcbs_cli.reports.losses import Measured
from gcbs_cli.reports.page import charts
from gcbs_cli.reports.page.pictures import pictures
from gcbs_cli.settings.report import Loss
from gcbs_cli.system.arrays import Float32s, Ints

LISTED_BATCHES = 5
EXAMPLES, SHOWN_EXAMPLES = 12, 2
LONGEST = 300
"""Characters of a name or text."""
MOST_ROWS = 256
"""Of a batch that are named."""


def report_page(
    reports: Sequence[Measured],
    names: str,
    facts: Mapping[str, Mapping[str, object]],
    names_of: Callable[[Sequence[int]], Mapping[int, str]],
    texts_of: Callable[[Sequence[int]], Mapping[int, Sequence[str]]],
    hint: str = "",
) -> str:
    """The page on the first of the reports as HTML, complete in itself, with a line for each of the others.

    names: of the plan and the inputs; facts: settings, inputs and hashes, by what they are of; names_of, texts_of: the
    names of these rows and the texts of both their sides, where they are known; hint: what to do about a warning.
    """
    measured, every = reports[0], [one.report for one in reports]
    report, perm = measured.report, measured.perm
    orders = {"random": random_order(report.n, measured.inputs.settings.seed, 0)}
    orders |= {} if perm is None else {"plan": perm}
    hardest = {kind: hardest_in_order(measured, order) for kind, order in orders.items()}
    batches, suspects = _listed_batches(measured), suspect_examples(measured)
    named = names_of(
        [row for suspect in suspects for row in suspect[:2]]
        + [row for group in batches.values() for batch in group for row in batch["rows"]]
    )
    return render(
        "report.html",
        title=f"gcbs report: {names}",
        headline=headline(report),
        lead=lead(report),
        summary=summary(report),
        report=report,
        marks=charts.loss_marks(report),
        trials=measured.trial_losses,
        pictures=pictures(measured),
        hardest={kind: values[np.isfinite(values)] for kind, values in hardest.items()},
        batch_losses=measured.of_plan["batch_losses"],
        batch_hard=measured.of_plan["batch_hard"],
        without=report.graph.isolated_batches,
        batches=batches,
        suspects=suspects,
        shown_suspects=SHOWN_EXAMPLES,
        texts=texts_of([row for suspect in suspects for row in suspect[:2]]),
        hint=hint,
        reports=every,
        warning=suspects_warning(every),
        facts={title: list(_lines(values)) for title, values in facts.items()},
        figures={figure.path: figure for figure in FIGURES},
        compared=shown_in("many"),
        row_name=lambda row: f"{row} ({named[row][:LONGEST]})" if row in named else f"{row}",
        longest=LONGEST,
        charts=charts,
    )


def hardest_in_order(measured: Measured, perm: Ints) -> Float32s:
    """(N,) each row's most similar negative (x→y) in its batch of an order; −inf in a batch of one."""
    pair, size, one_way = measured.inputs.pair, measured.report.batch_size, Loss("infonce")
    return batch_sums(pair, perm, size, [], SuspectPairs.none(), one_way).hardest[0, 0]


def _listed_batches(measured: Measured) -> dict[str, list[dict[str, Any]]]:
    """The batches of the plan with the highest and the lowest loss, without a short one that is dropped."""
    perm, size = measured.perm, measured.report.batch_size
    if perm is None:
        return {}
    losses, hard = measured.of_plan["batch_losses"], measured.of_plan["batch_hard"]
    order = np.argsort(losses, kind="stable")
    found: dict[str, list[dict[str, Any]]] = {}
    for caption, chosen in (("Hardest batches", order[::-1]), ("Easiest batches", order)):
        for number in chosen[:LISTED_BATCHES].tolist():
            rows = perm[number * size : (number + 1) * size]
            batch = {"number": number, "loss": losses[number], "hard": hard[number], "size": len(rows)}
            batch["rows"] = rows[:MOST_ROWS].tolist()
            found.setdefault(caption, []).append(batch)
    return found


def suspect_examples(measured: Measured) -> list[tuple[Any, ...]]:
    """(i, j, batch, s_ij, s_ji, s_ii, s_jj) of the suspected pairs in the plan's batches that are most similar."""
    inputs, perm = measured.inputs, measured.perm
    if perm is None:
        return []
    batch = batches_of(perm, measured.report.batch_size, drop_last=inputs.settings.drop_last)
    inside = inputs.suspects.in_batches(batch)
    i, j, own = inside.lower, inside.higher, inputs.diagonal
    there, back = pair_values(inputs.pair, i, j), pair_values(inputs.pair, j, i)
    most = np.argsort(-np.maximum(there, back), kind="stable")[:EXAMPLES]
    columns = (i, j, batch[i], there, back, own[i], own[j])
    return list(zip(*(column[most].tolist() for column in columns), strict=True))


def _lines(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested values, but for those that are None: the words of the keys, and the value as text."""
    for name, value in values.items():
        words = prefix + name.replace("_", " ")
        if isinstance(value, dict):
            yield from _lines(value, f"{words}, ")
        elif isinstance(value, list | tuple):
            yield words, ", ".join(map(str, value))
        elif value is not None:
            yield words, format(value, ".6g" if isinstance(value, float) else "")


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
    environment.filters["show"] = format
    return environment
