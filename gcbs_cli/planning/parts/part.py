"""The plan of one part, wherever it is made; and all of them on this machine: one after the other with all its cores or
its GPU, or one on each of several GPUs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress
from gcbs_cli.system.threads import OwnedByThreads, in_order
from gcbs_cli.system.version import VERSION


@dataclass(frozen=True)
class PartTask:
    """What a part's plan needs beside its unit rows."""

    number: int
    """From 0."""
    parts: int
    settings: PlanSettings
    groups: Ints | None
    """(n,) of the part's rows."""
    texts: Sequence[str] | None
    """Of the part's rows."""
    taken: int
    """Bytes that the whole plan holds where the part is planned."""
    version: str = VERSION
    """Of gcbs where the plan was asked for."""


@dataclass(frozen=True)
class PartPlan:
    """The order of a part and what came of it."""

    number: int
    order: Ints
    """(n,) places among the part's rows."""
    device: str
    threshold: float | None = None
    """t in this part."""
    edges: int = 0
    isolated: int = 0
    max_degree: int = 0
    in_batch: int = 0
    """Edges inside batches."""
    too_hard_inside: int | None = None
    """Pairs that are too hard inside batches, where they were looked for."""
    seconds: dict[str, float] = field(default_factory=dict)


ReadPart = Callable[[int], PairedRows]
"""Gives the unit rows of a part."""
Engine = Callable[[Sequence[PartTask], ReadPart, Progress], Iterator[PartPlan]]
"""Plans parts, given how to read the rows of one, and yields the plans in any order."""


def plan_part(task: PartTask, rows: PairedRows, progress: Progress | None = None) -> PartPlan:
    """Plan the rows of one part with the settings of the whole plan: the same wherever it runs.

    Raises BadInput that names the part where its rows do not allow what was asked, and on a node with another gcbs.
    """
    if task.version != VERSION:
        raise BadInput(f"--engine ray: a node has gcbs {VERSION}, expected {task.version}; install the same on all")
    try:
        result = make_plan(rows, task.settings, progress, groups=task.groups, texts=task.texts, taken=task.taken)
    except BadInput as error:
        raise BadInput(f"part {task.number + 1} of {task.parts} ({rows.rows:,} rows): {error}") from error
    figures, graph = result.figures, dict[str, Any]()
    if figures is not None and result.threshold is not None:
        graph = {
            "threshold": result.threshold.similarity,
            "edges": figures.edges,
            "isolated": figures.isolated,
            "max_degree": figures.max_degree,
            "in_batch": round((figures.plan.in_batch_edge_share or 0.0) * figures.edges),
        }
    return PartPlan(
        task.number,
        result.perm,
        result.device,
        too_hard_inside=result.too_hard_inside,
        seconds=result.seconds,
        **graph,
    )


class PartProgress(Progress):
    """Names the part in the steps where parts are planned one by one; of the notes, which are alike, the first part's
    are passed on.
    """

    def __init__(self, watcher: Progress, task: PartTask, *, alone: bool) -> None:
        self._task, self._watcher, self._steps = task, watcher, watcher if alone else Progress()

    def step(self, name: str) -> None:
        self._steps.step(f"part {self._task.number + 1} of {self._task.parts}, {name}")

    def progress(self, done: int, total: int) -> None:
        self._steps.progress(done, total)

    def note(self, text: str) -> None:
        if self._task.number == 0:
            self._watcher.note(text if self._task.parts == 1 else f"each part: {text}")


def plan_here(
    tasks: Sequence[PartTask], read: ReadPart, progress: Progress, devices: Sequence[str]
) -> Iterator[PartPlan]:
    """The plans of the parts, in their order: each on one device, as many at once as there are devices."""
    owned, alone = OwnedByThreads(cycle(devices)), len(devices) == 1

    def plan(task: PartTask) -> PartPlan:
        mine = replace(task, settings=task.settings.changed(device=owned.mine))
        return plan_part(mine, read(task.number), PartProgress(progress, task, alone=alone))

    if not alone:
        progress.note(f"{len(devices)} parts at a time, one per device; --max-memory applies to each of them")
    for done, part in enumerate(in_order(len(devices), tasks, plan), 1):
        if not alone:
            progress.progress(done, len(tasks))
        yield part
