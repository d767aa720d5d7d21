"""The figures of a report, as its models declare them; tables, page, history, compare and guide loop over them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gcbs_cli.reports.schema import Figure, GapReport, ReportPart


def _figures_of(part: type[ReportPart], prefix: str = "") -> Iterator[Figure]:
    """The figures of a model and of its parts."""
    for name, field in part.model_fields.items():
        path = prefix + (field.alias or name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, ReportPart):
            yield from _figures_of(field.annotation, f"{path}.")
        for figure in field.metadata:
            if isinstance(figure, Figure):
                random = figure.random and prefix + figure.random
                yield replace(figure, path=path, random=random, meaning=(field.description or "").rstrip("."))


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
