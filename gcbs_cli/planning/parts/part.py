"""The plan of one part, wherever it is made; and all of them on this machine: one after the other with all its cores or
its GPU, or one on each of several GPUs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.plan import PlanResult, make_plan
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
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
    version: str = VERSION
    """Of gcbs where the plan was asked for."""


ReadPart = Callable[[int], PairedRows]
"""Gives the unit rows of a part."""
Engine = Callable[[Sequence[PartTask], ReadPart], Iterator[PlanResult]]
"""Plans parts, given how to read the rows of one; gives their plans in order, of the places among the part's rows."""


def plan_part(task: PartTask, pairs: PairedRows) -> PlanResult:
    """Plan the rows of one part with the settings of the whole plan: the same wherever it runs.

    Raises BadInput that names the part where its rows do not allow what was asked, and on a node with another gcbs.
    """
    if task.version != VERSION:
        raise BadInput(f"--engine ray: a node has gcbs {VERSION}, expected {task.version}; install the same on all")
    try:
        return make_plan(pairs, task.settings, groups=task.groups, texts=task.texts)
    except BadInput as error:
        raise BadInput(f"part {task.number + 1} of {task.parts} ({pairs.rows:,} rows): {error}") from error


def plan_here(tasks: Sequence[PartTask], read: ReadPart, devices: Sequence[str]) -> Iterator[PlanResult]:
    """The plans of the parts, in their order: each on one device, as many at once as there are devices."""
    owned = OwnedByThreads(cycle(devices))

    def plan(task: PartTask) -> PlanResult:
        on_device = replace(task, settings=task.settings.changed(device=owned.mine))
        return plan_part(on_device, read(task.number))

    return in_order(len(devices), tasks, plan)
