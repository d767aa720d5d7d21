"""Progress for people: a bar with rate and remaining time on a terminal, a line a minute elsewhere."""

import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

from gcbs_cli.cli.output import Output, console
from gcbs_cli.system.progress import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SECONDS_BETWEEN_LINES = 60.0
QUIET_SECONDS = 0.5
"""A pass shorter than this shows no bar."""


class ShownProgress(Progress):
    """A bar where stderr is a terminal, gone when the work is done, lines where it is not; and the notes."""

    _bar: "Bar | None" = None

    def __init__(self, output: Output) -> None:
        self._output, self._name = output, ""
        self._on_terminal = not output.is_quiet and sys.stderr.isatty()
        self._began = self._said = time.monotonic()

    def step(self, name: str) -> None:
        self.close()
        self._name, self._began = name, time.monotonic()

    def note(self, text: str) -> None:
        self.close()
        self._output.note(text)

    def warn(self, text: str) -> None:
        self.close()
        self._output.warning(text)

    def progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        seconds = now - self._began
        rate = f"{done / max(seconds, 1e-9) / 1e6:,.0f} million pairs/s"
        bar = self._bar  # a note from another thread may take it away meanwhile
        if self._on_terminal and seconds >= QUIET_SECONDS:
            bar = bar or self._open_bar(total)
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done, rate=rate)
        elif not self._on_terminal and now - self._said >= SECONDS_BETWEEN_LINES:
            self._said = now
            rest = (total - done) * seconds / max(done, 1)
            self._output.note(f"{self._name}: {done / total:.0%}, {rate}, about {rest:.0f} s left")

    def _open_bar(self, total: int) -> "Bar":
        from rich.progress import BarColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        texts = "{task.description}", "{task.percentage:>3.0f} %", "{task.fields[rate]}"
        columns = texts[0], BarColumn(bar_width=24), *texts[1:], TimeRemainingColumn()
        self._bar = bar = Bar(*columns, console=console(stderr=True), transient=True)
        bar.start()
        bar.add_task(self._name, total=total, rate="")
        return bar

    def close(self) -> None:
        """Take the bar away, if there is one."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = None


def show_progress(output: Output) -> "closing[ShownProgress]":
    """Progress for people, for the time of a `with` block."""
    return closing(ShownProgress(output))
