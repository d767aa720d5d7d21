"""Where each kind of output goes: results to stdout, everything else to stderr, nothing that was not requested."""

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from gcbs_cli.system.errors import BadInput, GcbsError, printable, without_secrets
from gcbs_cli.system.progress import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from gcbs_cli.comparison.history import Epoch
    from gcbs_cli.reports.schema import Figure, ReportHead
    from gcbs_cli.settings.others import Shown

SECONDS_BETWEEN_LINES = 60.0
QUIET_SECONDS = 0.5
"""A pass shorter than this shows no bar."""


class Output(Progress, AbstractContextManager["Output"]):
    """All that a command prints: for a person, for a program (--json), and errors only (-q, which keeps the JSON).

    In a `with` block it shows how far the work is: by a bar where stderr is a terminal, else in lines.
    `written`: where the result goes: `-` is data on stdout, so that a table for people goes to stderr; where the result
    is in a file, a table is lost without harm if stdout is full or closed.
    """

    _bar: "Bar | None" = None

    def __init__(self, shown: "Shown", written: str | None = None) -> None:
        if shown.json_ and written == "-":
            raise BadInput("--json with -o -: stdout carries the rows; write them to a file, or leave out --json")
        self.is_json, self.is_quiet = shown.json_, shown.quiet
        self.for_people = not (self.is_json or self.is_quiet)
        self.on_terminal = not self.is_quiet and sys.stderr.isatty()
        self._written, self._name = written, ""
        self._began = self._last_line = time.monotonic()

    def table(self, *parts: RenderableType) -> None:
        """Show tables or sentences to people; programs and -q do not see them."""
        if not self.for_people:
            return
        stream = sys.stderr if self._written == "-" else sys.stdout
        console = Plain(stream)
        with console.capture() as capture:  # put() prints: rich would end the process where a reader has left
            console.print(*parts, sep="\n")
        with suppress(OSError, GcbsError) if self._written else nullcontext():
            put(capture.get().removesuffix("\n"), stream)

    def line(self, text: str) -> None:
        """Show a line that people copy, however long it is."""
        if self.for_people:
            put(printable(text), sys.stdout)

    def result(self, value: Any) -> None:
        """Print the result as one JSON object on stdout, for --json: in ASCII, which no terminal takes for orders."""
        if self.is_json:
            put(json.dumps(value, indent=2), sys.stdout)

    def note(self, text: str) -> None:
        """Say something that helps but need not be known."""
        if self.for_people:
            say(text)

    def warn(self, text: str) -> None:
        """Say what may spoil the user's run."""
        if not self.is_quiet:
            say(f"warning: {text}")

    def step(self, name: str) -> None:
        self.close()
        self._name, self._began = name, time.monotonic()

    def progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        seconds = now - self._began
        if self.on_terminal and seconds >= QUIET_SECONDS:
            bar = self._bar or self._open_bar(total)
            bar.update(bar.task_ids[0], completed=done)
        elif not self.on_terminal and now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            rest = (total - done) * seconds / max(done, 1)
            self.note(f"{self._name}: {done / total:.0%}, about {rest:.0f} s left")

    def _open_bar(self, total: int) -> "Bar":
        from rich.progress import Progress as Bar

        self._bar = bar = Bar(console=Plain(sys.stderr), transient=True)
        bar.start()
        bar.add_task(self._name, total=total)
        return bar

    def close(self) -> None:
        """Take the bar away, if there is one."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = None

    def __exit__(self, *_: object) -> None:
        self.close()


class Plain(Console):
    """A console with no markup and nothing unprintable in any text."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stderr=stream is sys.stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **style: Any) -> Text:
        return super().render_str(printable(text), **style)


def text_table(lines: Iterable[Sequence[str]], headings: Sequence[str] = (), *, figures: bool = False) -> Table:
    """A table of words: names and values, or what stands under `headings`; figures: the first column alone is words."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(headings), caption_justify="left")
    for name in headings or ("", ""):
        table.add_column(name, justify="right" if figures else "left", overflow="fold")
    table.columns[0].style, table.columns[0].justify = "bold", "left"
    for cells in lines:
        table.add_row(*cells)
    return table


def record_table(record: Mapping[str, Any]) -> Table:
    """The names and values of a record."""
    return text_table((name, _said(value)) for name, value in record.items())


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_said(part)}" for name, part in value.items())
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if type(value) is int else str(value)


def figure_table(
    lines: "Sequence[tuple[Sequence[str], ReportHead | Epoch]]", headings: Sequence[str], figures: "Sequence[Figure]"
) -> Table:
    """A line for each report: words, under `headings`, and the figures that any of them has."""
    known = [figure for figure in figures if any(report.at(figure.path) is not None for _, report in lines)]
    cells = ([*cells, *(figure.text(report.at(figure.path)) for figure in known)] for cells, report in lines)
    headings = [*headings, *(figure.short for figure in known)]
    return text_table(cells, headings, figures=True)


def say(text: str) -> None:
    """One line on stderr, where it can be written."""
    with suppress(OSError, GcbsError):  # closed or full: losing a note must not lose the plan
        put(without_secrets(printable(text)), sys.stderr)


def put(text: str, stream: TextIO) -> None:
    """Print a text. Raises GcbsError where the stream refuses it; what waits in its buffer is dropped then."""
    try:
        print(text, file=stream, flush=True)
    except OSError as error:
        forget(2 if stream is sys.stderr else 1)
        if isinstance(error, BrokenPipeError):
            raise
        raise GcbsError(f"cannot write to stdout: {error.strerror}; name a file with -o, or another place") from None


def forget(number: int) -> None:
    """Send what waits for a stream to nowhere, so that the interpreter does not fail on it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)
