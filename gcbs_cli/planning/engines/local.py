"""Parts on this machine: one after the other with all its cores or its GPU, or one on each of several GPUs."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from gcbs_cli.planning.engines.part import PartPlan, PartTask, ReadPart, plan_part
from gcbs_cli.system.progress import Progress
from gcbs_cli.system.threads import OwnedByThreads, in_order


class PartProgress(Progress):
    """Names the part in the steps where parts are planned one by one; of the notes, which are alike, the first part's
    are passed on.
    """

    def __init__(self, progress: Progress, task: PartTask, *, alone: bool) -> None:
        self._progress, self._task, self._alone = progress, task, alone

    def step(self, name: str) -> None:
        if self._alone:
            self._progress.step(f"part {self._task.number + 1} of {self._task.parts}, {name}")

    def progress(self, done: int, total: int) -> None:
        if self._alone:
            self._progress.progress(done, total)

    def note(self, text: str) -> None:
        if self._task.number == 0:
            self._progress.note(text if self._task.parts == 1 else f"each part: {text}")


def plan_here(
    tasks: Sequence[PartTask], read: ReadPart, progress: Progress, devices: Sequence[str] = ("auto",)
) -> Iterator[PartPlan]:
    """The plans of the parts, in their order: each on one device, as many at once as there are devices."""
    owned, alone = OwnedByThreads(devices), len(devices) == 1

    def plan(task: PartTask) -> PartPlan:
        mine = replace(task, settings=task.settings.changed(device=owned.mine))
        return plan_part(mine, read(task.number), PartProgress(progress, task, alone=alone))

    around: AbstractContextManager[None] = nullcontext()
    if not alone:
        from gcbs_cli.products.torch_device import without_tf32

        progress.note(f"{len(devices)} parts at a time, one a device; --max-memory holds for each of them")
        # Around all threads: each sets the process's precision and sets it back, the first while others still work.
        around = without_tf32()
    with around:
        for done, part in enumerate(in_order(len(devices), tasks, plan), 1):
            if not alone:
                progress.progress(done, len(tasks))
            yield part
