"""What the work tells whoever watches it; by default nobody does."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """Hears of steps, progress and notes. The base class keeps quiet; the command line's prints."""

    def step(self, name: str) -> None:
        """A step begins."""

    def progress(self, done: int, total: int) -> None:
        """Entries of X Yᵀ done in this step, and in all."""

    def note(self, text: str) -> None:
        """Something a person should know, one line."""

    def warn(self, text: str) -> None:
        """A warning, which is shown even without notes, one line."""


class Stopwatch:
    """Seconds by step, in the order in which the steps were made."""

    def __init__(self, watcher: Progress | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self.watcher = watcher or Progress()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time the block and tell the watcher that it began."""
        self.watcher.step(name)
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began
