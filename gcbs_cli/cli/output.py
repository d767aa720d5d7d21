"""Where each kind of output goes: results to stdout, everything else to stderr, nothing that was not asked for."""

import json
import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


NO_TERMINAL_WIDTH = 80


class Mode(StrEnum):
    """Who reads the output: a person, a program, or nobody."""

    HUMAN = "human"
    JSON = "json"
    QUIET = "quiet"
    QUIET_JSON = "quiet json"

    @property
    def is_json(self) -> bool:
        """Whether stdout carries one JSON object."""
        return self in (Mode.JSON, Mode.QUIET_JSON)

    @property
    def is_quiet(self) -> bool:
        """Whether stderr carries errors only."""
        return self in (Mode.QUIET, Mode.QUIET_JSON)


class Output:
    """One object for all that a command says.

    `results_to_stderr`: stdout carries data (a permutation), so that a table for people goes to stderr.
    """

    def __init__(self, mode: Mode, *, results_to_stderr: bool = False) -> None:
        self.mode = mode
        self._results_to_stderr = results_to_stderr

    @property
    def shows_progress(self) -> bool:
        """Whether anybody wants to hear how far the work is."""
        return not self.mode.is_quiet

    def table(self, table: "RenderableType") -> None:
        """Show a table or sentence to people; programs and -q do not see it."""
        if self.mode is Mode.HUMAN:
            console(stderr=self._results_to_stderr).print(table)

    def line(self, text: str) -> None:
        """Show a line that people copy, however long it is."""
        if self.mode is Mode.HUMAN:
            print(text)

    def result(self, value: Any) -> None:
        """Print the result as one JSON object on stdout, for --json."""
        if self.mode.is_json:
            sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def note(self, text: str) -> None:
        """Say something that helps but need not be known."""
        if self.mode is Mode.HUMAN:
            say(text)

    def warning(self, text: str) -> None:
        """Say what may spoil the user's run; -q, for pipelines that know, does not see it."""
        if not self.mode.is_quiet:
            say(f"warning: {text}")

    def error(self, text: str) -> None:
        """Say what is wrong; said in every mode."""
        say(f"error: {text}")

    def hint(self, text: str) -> None:
        """Suggest a next step."""
        if self.mode is Mode.HUMAN:
            say(f"hint: {text}")


def choose_mode(*, as_json: bool, quiet: bool) -> Mode:
    """--json keeps its object under -q, which silences the rest."""
    if as_json:
        return Mode.QUIET_JSON if quiet else Mode.JSON
    return Mode.QUIET if quiet else Mode.HUMAN


def console(*, stderr: bool) -> "Console":
    """A rich console; 80 columns where there is no terminal, no markup in what users named."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else NO_TERMINAL_WIDTH
    return Console(stderr=stderr, width=width, markup=False, highlight=False, soft_wrap=False)


def say(text: str) -> None:
    """One line on stderr; a terminal gets it wrapped between words, with nothing cut."""
    if sys.stderr.isatty():
        from shutil import get_terminal_size
        from textwrap import fill

        width = get_terminal_size((NO_TERMINAL_WIDTH, 24)).columns
        text = fill(text, width, break_long_words=False, break_on_hyphens=False)
    print(text, file=sys.stderr, flush=True)
