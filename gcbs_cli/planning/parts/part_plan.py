"""The plan of one part: what a process or a worker of a cluster does by itself."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.plan import PlanResult, make_plan
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress


@dataclass(frozen=True)
class PartTask:
    """What a part's plan needs beside its unit rows. `number` counts from 0; groups, method_inputs: of its rows."""

    number: int
    parts: int
    settings: PlanSettings
    groups: NDArray[np.int64] | None = None
    method_inputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PartPlan:
    """The order of a part and what came of it.

    order: (n,) int64 places among the part's rows; edges, isolated, max_degree, in_batch: of its graph (in_batch: edges
    inside batches); threshold: t in this part; suspected_inside, swaps, sweeps: where they were asked for.
    """

    number: int
    order: NDArray[np.int64]
    device: str
    threshold: float | None = None
    edges: int = 0
    isolated: int = 0
    max_degree: int = 0
    in_batch: int = 0
    suspected_inside: int | None = None
    swaps: int = 0
    sweeps: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


ReadPart = Callable[[int], PairedRows]
"""Gives the unit rows of a part."""
Engine = Callable[[Iterable[PartTask], ReadPart, Progress], Iterator[PartPlan]]
"""Runs part plans, given how to read the rows of a part, and yields them in any order."""


def plan_part(
    task: PartTask, x: NDArray[np.float32], y: NDArray[np.float32], watcher: Progress | None = None
) -> PartPlan:
    """Plan the rows x, y (n, d) of one part with the settings of the whole plan: the same wherever it runs.

    Raises BadInput that names the part where its rows do not allow what was asked.
    """
    pair = PairedRows(x, y)
    try:
        result = make_plan(pair, task.settings, watcher, groups=task.groups, method_inputs=task.method_inputs)
    except BadInput as error:
        raise BadInput(f"part {task.number + 1} of {task.parts} ({pair.rows:,} rows): {error}") from error
    return _as_part(task.number, result)


def _as_part(number: int, result: PlanResult) -> PartPlan:
    figures, refinement = result.figures, result.refinement
    share = figures.plan.in_batch_edge_share if figures else None
    return PartPlan(
        number=number,
        order=result.perm,
        device=result.device,
        threshold=result.threshold.value if result.threshold else None,
        edges=figures.edges if figures else 0,
        isolated=figures.isolated if figures else 0,
        max_degree=figures.max_degree if figures else 0,
        in_batch=round(share * figures.edges) if figures and share is not None else 0,
        suspected_inside=result.suspected_inside,
        swaps=refinement.swaps if refinement else 0,
        sweeps=refinement.sweeps if refinement else 0,
        seconds=result.seconds,
    )
