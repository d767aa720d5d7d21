"""The figures of a report, as its models declare them; tables, page, history, compare and guide loop over them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gcbs_cli.reports.schema import Figure, GapReport, ReportPart

__all__ = ["FIGURES", "Figure", "nest", "shown_in"]


def _figures_of(part: type[ReportPart], prefix: str = "") -> Iterator[Figure]:
    """The figures of a model and of its parts, each with those of random orders beside it."""
    for name, field in part.model_fields.items():
        path = prefix + (field.alias or name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, ReportPart):
            yield from _figures_of(field.annotation, f"{path}.")
        for figure in field.metadata:
            if isinstance(figure, Figure):
                yield from _with_random(figure, prefix, path, (field.description or "").rstrip("."))


def _with_random(figure: Figure, prefix: str, path: str, meaning: str) -> Iterator[Figure]:
    """A figure of the plan, and what random orders give beside it: on average, and in spread."""
    if figure.random is None:
        yield replace(figure, path=path, meaning=meaning)
        return
    random = prefix + figure.random
    spread = f"{prefix}random_std" if figure.random == "random_mean" else None
    yield replace(figure, path=path, random=random, spread=spread, meaning=meaning)
    words, form = figure.words, figure.format
    yield Figure(f"{words}, random", form, show="", meaning=f"{meaning}, in random batches", path=random)
    if spread is not None:
        over_orders = f"{meaning}: standard deviation over random orders"
        yield Figure(f"{words}, spread", form, show="", meaning=over_orders, path=spread)


FIGURES = list(_figures_of(GapReport))
"""In the order of the JSON report."""


def shown_in(view: str) -> Sequence[Figure]:
    """The figures of a view, in the list's order."""
    return [figure for figure in FIGURES if view in figure.show.split()]


def nest(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by path as nested dictionaries, as in JSON."""
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *folders, name = path.split(".")
        place = tree
        for folder in folders:
            place = place.setdefault(folder, {})
        place[name] = value
    return tree
