"""Parts one after the other in this process, each with all its cores or its GPU."""

from collections.abc import Callable, Iterable, Iterator

from gcbs_cli.partitions.part_plan import PartPlan, PartTask, plan_part
from gcbs_cli.progress import Watcher
from gcbs_cli.similarity.canonical_values import UnitPair


class PartWatcher(Watcher):
    """Names the part in the steps, and passes notes on for the first part alone: the others' say the same."""

    def __init__(self, watcher: Watcher, task: PartTask) -> None:
        self._watcher, self._task = watcher, task

    def step(self, name: str) -> None:
        self._watcher.step(f"part {self._task.number + 1} of {self._task.parts}, {name}")

    def progress(self, done: int, total: int) -> None:
        self._watcher.progress(done, total)

    def note(self, text: str) -> None:
        if self._task.number == 0:
            self._watcher.note(text if self._task.parts == 1 else f"each part: {text}")


def plan_here(tasks: Iterable[PartTask], read: Callable[[int], UnitPair], watcher: Watcher) -> Iterator[PartPlan]:
    """The plans of the parts, in their order; `read` gives the unit rows of a part."""
    for task in tasks:
        pair = read(task.number)
        yield plan_part(task, pair.x, pair.y, PartWatcher(watcher, task))
