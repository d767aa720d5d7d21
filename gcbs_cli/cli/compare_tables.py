"""The tables of `gcbs compare` and `gcbs tune`; each fits 80 columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from gcbs_cli.comparison.compare import Compared
    from gcbs_cli.comparison.tune import Tuned


def compare_table(lines: "Sequence[Compared]") -> "Table":
    """One line a method."""
    table = _table("method", "seconds", "gap", "closed", "masked", "edges", "suspects", "spread")
    recurring = any(line.recurring is not None for line in lines)
    if recurring:
        table.add_column("recur", justify="right", no_wrap=True)
    for line in lines:
        table.add_row(*_cells(line.method, line), *([_share(line.recurring)] if recurring else []))
    table.caption = (
        "gap, masked: reduction of the (masked) gap; closed: share of what the oracle closes; edges: share of hard "
        "pairs inside batches; spread: standard deviation of the batches' losses, nats"
    )
    return table


def tune_table(tuned: "Tuned") -> "RenderableType":
    """The trials, those within the cap marked, by falling masked reduction."""
    table = _table("", "seconds", "gap", "masked", "suspects", "options")
    for trial in sorted(tuned.trials, key=lambda trial: -(trial.figures.masked_reduction or 0.0)):
        figures = trial.figures
        mark = "best" if trial is tuned.best else "" if trial.fits else "over"
        table.add_row(
            mark,
            f"{figures.seconds:.1f}",
            _share(figures.gap_reduction),
            _share(figures.masked_reduction),
            f"{figures.suspected_pairs:,}",
            _short(trial.options()),
        )
    table.columns[-1].no_wrap = False
    table.columns[-1].justify = "left"
    return table


def _short(options: str) -> str:
    """Options without those that all trials share, which the command line below the table shows."""
    words = options.split(" ")
    while "-k" in words or "-t" in words:
        place = words.index("-k") if "-k" in words else words.index("-t")
        del words[place : place + 2]
    return " ".join(words[1:])


def _cells(name: str, line: "Compared") -> list[str]:
    return [
        name,
        f"{line.seconds:.1f}",
        _share(line.gap_reduction),
        _share(line.closed_share),
        _share(line.masked_reduction),
        _share(line.in_batch_edge_share),
        f"{line.suspected_pairs:,}",
        f"{line.batch_losses_std:.2f}",
    ]


def _table(*names: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), caption_justify="left")
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
