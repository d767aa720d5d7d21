"""Where each kind of output goes: results to stdout, everything else to stderr, nothing that was not asked for."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from gcbs_cli.settings.others import Shown

NO_TERMINAL_WIDTH = 80


class Output:
    """All that a command prints: for a person, for a program (--json), and errors only (-q, which keeps the JSON).

    `results_to_stderr`: stdout carries data (a permutation), so that a table for people goes to stderr.
    """

    def __init__(self, shown: "Shown", *, results_to_stderr: bool = False) -> None:
        self.is_json, self.is_quiet = shown.json_, shown.quiet
        self.for_people = not (self.is_json or self.is_quiet)
        self._results_to_stderr = results_to_stderr

    def table(self, table: "RenderableType") -> None:
        """Show a table or sentence to people; programs and -q do not see it."""
        if self.for_people:
            with suppress(OSError) if self._results_to_stderr else nullcontext():
                console(stderr=self._results_to_stderr).print(table)

    def line(self, text: str) -> None:
        """Show a line that people copy, however long it is."""
        if self.for_people:
            print(text)

    def result(self, value: Any) -> None:
        """Print the result as one JSON object on stdout, for --json."""
        if self.is_json:
            sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def note(self, text: str) -> None:
        """Say something that helps but need not be known."""
        if self.for_people:
            say(text)

    def warning(self, text: str) -> None:
        """Say what may spoil the user's run."""
        if not self.is_quiet:
            say(f"warning: {text}")

    def error(self, text: str) -> None:
        """Say what is wrong, whatever the mode."""
        say(f"error: {text}")

    def hint(self, text: str) -> None:
        """Suggest a next step."""
        if self.for_people:
            say(f"hint: {text}")


def console(*, stderr: bool) -> "Console":
    """A rich console; 80 columns where there is no terminal, no markup in what users named."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else NO_TERMINAL_WIDTH
    return Console(stderr=stderr, width=width, markup=False, highlight=False, soft_wrap=False)


def text_table(lines: Iterable[Sequence[str]], headings: Sequence[str] = (), columns: str = "lf") -> "Table":
    """A table of words: names and values, or what stands under `headings`.

    columns: a letter for each, l for left, r for right, f for folded into the room that is left.
    """
    from rich.table import Table

    padding = (0, 1 if headings else 2, 0, 0)
    table = Table(box=None, pad_edge=False, padding=padding, show_header=bool(headings), caption_justify="left")
    for name, kind in zip(headings or [""] * len(columns), columns, strict=True):
        side: Literal["left", "right"] = "right" if kind == "r" else "left"
        table.add_column(name, justify=side, no_wrap=kind != "f", overflow="fold" if kind == "f" else "ellipsis")
    table.columns[0].style = "bold"
    for line in lines:
        table.add_row(*line)
    return table


def say(text: str) -> None:
    """One line on stderr, where it can be written; a terminal gets it wrapped between words, with nothing cut."""
    if sys.stderr.isatty():
        from shutil import get_terminal_size
        from textwrap import fill

        width = get_terminal_size((NO_TERMINAL_WIDTH, 24)).columns
        text = fill(text, width, break_long_words=False, break_on_hyphens=False)
    with suppress(OSError):  # closed or full: losing a note must not lose the plan
        print(text, file=sys.stderr, flush=True)
