"""Progress for people: a bar with rate and remaining time on a terminal, a line a minute elsewhere."""

import sys
import time
from typing import TYPE_CHECKING, Self

from gcbs_cli.cli.output import Output, console
from gcbs_cli.system.progress import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SECONDS_BETWEEN_LINES = 60.0
QUIET_SECONDS = 0.5
"""A pass shorter than this shows no bar."""


class LineProgress(Progress):
    """One line a minute on stderr, and the notes."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._name = ""
        self._began = self._said = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def step(self, name: str) -> None:
        self._close()
        self._name = name
        self._began = time.monotonic()

    def note(self, text: str) -> None:
        self._close()
        self._output.note(text)

    def warn(self, text: str) -> None:
        self._close()
        self._output.warning(text)

    def progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._said >= SECONDS_BETWEEN_LINES:
            self._said = now
            rest = (total - done) * (now - self._began) / max(done, 1)
            self._output.note(f"{self._name}: {done / total:.0%}, {self._rate(done)}, about {rest:.0f} s left")

    def _rate(self, done: int) -> str:
        return f"{done / max(time.monotonic() - self._began, 1e-9) / 1e6:,.0f} million pairs/s"

    def _close(self) -> None:
        """Take a bar away."""


class BarProgress(LineProgress):
    """A bar on the terminal, gone when the work is done."""

    _bar: "Bar | None" = None

    def progress(self, done: int, total: int) -> None:
        bar = self._bar  # a note from another thread may take it away meanwhile
        if bar is None:
            if time.monotonic() - self._began < QUIET_SECONDS:
                return
            bar = self._bar = _open_bar(self._name, total)
        bar.update(bar.task_ids[0], completed=done, rate=self._rate(done))

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar = None


def _open_bar(name: str, total: int) -> "Bar":
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    )
    bar.start()
    bar.add_task(name, total=total, rate="")
    return bar


def show_progress(output: Output) -> LineProgress:
    """A bar where stderr is a terminal, lines where it is not, for people only."""
    return BarProgress(output) if not output.is_quiet and sys.stderr.isatty() else LineProgress(output)
