"""The tables of `gcbs compare` and `gcbs tune`; each fits 80 columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gcbs_cli.reports.figures import shown_in

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from gcbs_cli.comparison.compare import Compared
    from gcbs_cli.comparison.tune import Tuned

TUNED = ("gap.reduction", "gap.masked.reduction", "false_negatives.suspected_pairs")
"""The figures that a search shows."""


def compare_table(lines: "Sequence[Compared]") -> "Table":
    """One line a method."""
    figures = shown_in("compare")
    recurring = any(line.recurring is not None for line in lines)
    table = _table("method", "seconds", *(figure.heading for figure in figures), "spread", *["recur"] * recurring)
    for line in lines:
        cells = [figure.text(line.report.at(figure.path)) for figure in figures]
        recurs = ["–" if line.recurring is None else f"{line.recurring:.1%}"] * recurring
        table.add_row(line.method, f"{line.seconds:.1f}", *cells, f"{line.losses_std:.2f}", *recurs)
    said = [f"{figure.heading}: {figure.meaning}" for figure in figures]
    table.caption = "; ".join([*said, "spread: standard deviation of the batches' losses, nats"])
    return table


def tune_table(tuned: "Tuned") -> "RenderableType":
    """The trials, those within the cap marked, by falling masked reduction."""
    figures = [figure for figure in shown_in("compare") if figure.path in TUNED]
    table = _table("", "seconds", *(figure.heading for figure in figures), "options")
    for trial in sorted(tuned.trials, key=lambda trial: -trial.reduction("masked")):
        mark = "best" if trial is tuned.best else "" if trial.fits else "over"
        cells = [figure.text(trial.worth.report.at(figure.path)) for figure in figures]
        table.add_row(mark, f"{trial.worth.seconds:.1f}", *cells, _short(trial.options()))
    table.columns[-1].no_wrap = False
    table.columns[-1].justify = "left"
    return table


def _short(options: str) -> str:
    """Options without those that all trials share, which the command line below the table shows."""
    words = options.split(" ")
    for name in ("--batch-size", "--temperature"):
        if name in words:
            del words[words.index(name) : words.index(name) + 2]
    return " ".join(words)


def _table(*names: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), caption_justify="left")
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table
