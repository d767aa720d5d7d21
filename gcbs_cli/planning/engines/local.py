"""Parts in this process: one after the other with all its cores or its GPU, or dealt to several GPUs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from gcbs_cli.planning.parts.part_plan import Engine, PartPlan, PartTask, ReadPart, plan_part
from gcbs_cli.products.devices import devices_named, may_mean_several
from gcbs_cli.system.progress import Progress
from gcbs_cli.system.threads import OwnedByThreads, in_order


class PartWatcher(Progress):
    """Names the part in the steps, and passes notes on for the first part alone: the others' say the same."""

    def __init__(self, watcher: Progress, task: PartTask) -> None:
        self._watcher, self._task = watcher, task

    def step(self, name: str) -> None:
        self._watcher.step(f"part {self._task.number + 1} of {self._task.parts}, {name}")

    def progress(self, done: int, total: int) -> None:
        self._watcher.progress(done, total)

    def note(self, text: str) -> None:
        if self._task.number == 0:
            self._watcher.note(text if self._task.parts == 1 else f"each part: {text}")


class _KeptNotes(Progress):
    """Notes that a thread keeps, for the thread that began it to pass on."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def local_engine(device: str) -> Engine:
    """How parts are planned on the devices of a name. Raises BadInput for a GPU that is not there."""
    devices = devices_named(device) if may_mean_several(device) else [device]
    return plan_here if len(devices) == 1 else partial(plan_on_each, devices=devices)


def plan_here(tasks: Iterable[PartTask], read: ReadPart, watcher: Progress) -> Iterator[PartPlan]:
    """The plans of the parts, in their order; `read` gives the unit rows of a part."""
    for task in tasks:
        pair = read(task.number)
        yield plan_part(task, pair.x, pair.y, PartWatcher(watcher, task))


def plan_on_each(
    tasks: Iterable[PartTask], read: ReadPart, watcher: Progress, devices: Sequence[str]
) -> Iterator[PartPlan]:
    """The plans of the parts, in their order: each on one device, as many at once as there are devices."""
    from gcbs_cli.products.torch_backend import without_tf32

    watcher.note(f"{len(devices)} parts at a time, one a device; --max-memory holds for each of them")
    owned = OwnedByThreads(devices)

    def plan(task: PartTask) -> tuple[PartTask, PartPlan, list[str]]:
        pair, kept = read(task.number), _KeptNotes()
        task = replace(task, settings=task.settings.changed(device=owned.mine))
        return task, plan_part(task, pair.x, pair.y, kept), kept.notes

    # Around all threads: each sets the process's precision and sets it back, the first while others still work.
    with without_tf32():
        for task, part, notes in in_order(len(devices), tasks, plan):
            for text in notes:
                PartWatcher(watcher, task).note(text)
            watcher.progress(task.number + 1, task.parts)
            yield part
