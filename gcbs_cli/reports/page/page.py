"""Put the sections of a report into the one template."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from string import Template

from gcbs_cli.reports.details import ReportDetails
from gcbs_cli.reports.headline import headline, lead
from gcbs_cli.reports.page import charts, sections
from gcbs_cli.reports.page.markup import Markup, element, join
from gcbs_cli.reports.schema import GapReport

Facts = Sequence[tuple[str, Sequence[tuple[str, str]]]]
"""Groups of names and values."""


@dataclass(frozen=True)
class PageFacts:
    """All that a page shows. `report` is the first of what was asked; `grid` holds it and its neighbours.

    ids: names of rows, where the input has any; warnings: sentences; facts: settings, inputs and hashes.
    """

    report: GapReport
    details: ReportDetails
    grid: Sequence[GapReport]
    names: str
    facts: Facts
    ids: Mapping[int, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()


def report_page(facts: PageFacts) -> str:
    """The page as HTML, complete in itself: no script, no address outside it, every name escaped."""
    report, details = facts.report, facts.details
    namer = sections.RowNames(facts.ids)
    parts = [
        sections.tiles(report),
        *(element("p", warning, class_="warning") for warning in facts.warnings),
        sections.losses(report, details),
        sections.matrices(report, details),
        sections.hardest(details),
        sections.batches(report, details, namer),
        sections.grid(facts.grid),
        sections.false_negatives(report, details, namer),
        sections.bounds(report),
        sections.figures(report),
        sections.settings(facts.facts),
    ]
    body = join(*(part for part in parts if part is not None))
    return fill(f"gcbs report: {facts.names}", headline(report), lead(report), body)


def fill(title: str, words: str, explained: str, body: Markup) -> str:
    """The template with a title, a headline in words, what its words mean, and the sections."""
    from gcbs_cli import __version__

    template = Template(files("gcbs_cli.reports.page").joinpath("page.html").read_text("utf-8"))
    return template.substitute(
        title=join(title),
        headline=join(words),
        lead=join(explained),
        body=body,
        footer=join(f"Made by gcbs {__version__}."),
    )


__all__ = ["PageFacts", "charts", "fill", "report_page"]
