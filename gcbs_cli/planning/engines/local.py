"""Parts in this process: one after the other with all its cores or its GPU, or dealt to several GPUs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from gcbs_cli.planning.engines.part import Engine, PartPlan, PartTask, ReadPart, plan_part
from gcbs_cli.products.devices import devices_named, may_mean_several
from gcbs_cli.system.progress import Progress
from gcbs_cli.system.threads import OwnedByThreads, in_order


class PartProgress(Progress):
    """Names the part in the steps, and passes notes on for the first part alone: the others' say the same."""

    def __init__(self, progress: Progress, task: PartTask) -> None:
        self._progress, self._task = progress, task

    def step(self, name: str) -> None:
        self._progress.step(f"part {self._task.number + 1} of {self._task.parts}, {name}")

    def progress(self, done: int, total: int) -> None:
        self._progress.progress(done, total)

    def note(self, text: str) -> None:
        if self._task.number == 0:
            self._progress.note(text if self._task.parts == 1 else f"each part: {text}")


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


def plan_here(tasks: Iterable[PartTask], read: ReadPart, progress: Progress) -> Iterator[PartPlan]:
    """The plans of the parts, in their order; `read` gives the unit rows of a part."""
    for task in tasks:
        yield plan_part(task, read(task.number), PartProgress(progress, task))


def plan_on_each(
    tasks: Iterable[PartTask], read: ReadPart, progress: Progress, devices: Sequence[str]
) -> Iterator[PartPlan]:
    """The plans of the parts, in their order: each on one device, as many at once as there are devices."""
    from gcbs_cli.products.torch_device import without_tf32

    progress.note(f"{len(devices)} parts at a time, one a device; --max-memory holds for each of them")
    owned = OwnedByThreads(devices)

    def plan(task: PartTask) -> tuple[PartTask, PartPlan, list[str]]:
        kept = _KeptNotes()
        task = replace(task, settings=task.settings.changed(device=owned.mine))
        return task, plan_part(task, read(task.number), kept), kept.notes

    # Around all threads: each sets the process's precision and sets it back, the first while others still work.
    with without_tf32():
        for task, part, notes in in_order(len(devices), tasks, plan):
            for text in notes:
                PartProgress(progress, task).note(text)
            progress.progress(task.number + 1, task.parts)
            yield part
