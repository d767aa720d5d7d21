"""A plan in parts: centres from a sample, rows to parts, a plan for each, one after the other in the order of parts."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli import __version__
from gcbs_cli.data.reading import PairStream
from gcbs_cli.orders import planner_named
from gcbs_cli.orders.finish import shuffle_batches
from gcbs_cli.planning.engines.local import plan_here
from gcbs_cli.planning.parts.kept import KeptParts
from gcbs_cli.planning.parts.part_plan import Engine, PartPlan, PartTask, ReadPart
from gcbs_cli.planning.parts.partition import (
    Partition,
    find_nearest_parts,
    learn_centres,
    make_partition,
    sample_means,
)
from gcbs_cli.planning.parts.scattering import scattered
from gcbs_cli.planning.plan import PlanResult
from gcbs_cli.settings.parts import check_settings, choose_parts
from gcbs_cli.settings.plan import PlanSettings, RankSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress, Stopwatch

HOW_ONLY = ("device", "chunk_rows", "max_memory", "max_edges", "partitions", "engine", "address", "transport")
"""Settings that change how the work is done and never what it finds."""


@dataclass(frozen=True)
class PartitionedPlan:
    """A permutation (N,) int64, the parts it was made of in their order, seconds by step, and where the plans of the
    parts are `kept` until the permutation is saved.
    """

    perm: NDArray[np.int64]
    settings: PlanSettings
    partition: Partition
    parts: list[PartPlan]
    seconds: dict[str, float] = field(default_factory=dict)
    kept: KeptParts | None = None

    @property
    def device(self) -> str:
        """Where the parts were planned; several names where they were dealt to several GPUs."""
        return ", ".join(sorted({part.device for part in self.parts}))

    def as_result(self) -> PlanResult:
        """As one plan, which has no single threshold or graph."""
        inside = [part.suspected_inside for part in self.parts if part.suspected_inside is not None]
        return PlanResult(
            self.perm,
            self.settings,
            self.device,
            None,
            None,
            self.seconds,
            suspected_inside=sum(inside) if inside else None,
        )


def plan_in_parts(
    stream: PairStream,
    settings: PlanSettings,
    parts: int | None,
    beside: Path,
    *,
    watcher: Progress | None = None,
    groups: NDArray[np.int64] | None = None,
    method_inputs: Mapping[str, Any] | None = None,
    engine: Engine = plan_here,
    work_dir: Path | None = None,
) -> PartitionedPlan:
    """Plan all rows in `parts` parts (None: as many as it takes), holding the rows of one part at a time.

    beside: the output, next to which the rows lie on disk in the order of their parts meanwhile; work_dir: a folder
    that keeps the plans of finished parts. The other arguments are those of `make_plan`, and the permutation depends on
    neither engine, device nor tile size.
    Raises BadInput where settings and data do not fit, before any part is planned as far as it can be known.
    """
    watcher = watcher or Progress()
    clock = Stopwatch(watcher)
    check_settings(settings)
    planner_named(settings.method).check()
    count = choose_parts(parts, stream.rows, stream.dim, settings)
    _check_one_a_row(groups, method_inputs or {}, stream.rows)
    with clock.step("centres"):
        centres = learn_centres(sample_means(stream, settings.seed), count, settings.seed)
    with clock.step("parts"):
        partition = make_partition(find_nearest_parts(stream, centres), centres, settings.batch_size)
    settings.changed(ranks=RankSettings()).check_rows(int(partition.sizes.min()))
    watcher.note(_describe(partition))
    with clock.step("rows to parts"), scattered(stream, partition, beside) as rows:
        tasks = _tasks(partition, _settings_of_part(settings), groups, method_inputs or {})
        kept = None
        if work_dir is not None:
            kept = KeptParts(work_dir, _run_key(stream, settings, count, groups, method_inputs or {}), watcher)
        with clock.step("plans"):
            found = _plans(tasks, rows.read, watcher, engine, kept)
    perm = np.concatenate([partition.rows_of(part.number)[part.order] for part in found])
    if settings.batch_order.shuffle_batches:
        perm = shuffle_batches(perm, settings.batch_size, settings.seed)
    clock.seconds["rows to parts"] -= clock.seconds["plans"]
    return PartitionedPlan(perm, settings, partition, found, clock.seconds, kept)


def _check_one_a_row(groups: NDArray[np.int64] | None, method_inputs: Mapping[str, Any], rows: int) -> None:
    if groups is not None and groups.shape != (rows,):
        raise BadInput(f"groups: expected one id for each of the {rows:,} rows, got shape {groups.shape}")
    for name, values in method_inputs.items():
        if len(values) != rows:
            raise BadInput(f"{name}: expected one for each of the {rows:,} rows, got {len(values):,}")


def _settings_of_part(settings: PlanSettings) -> PlanSettings:
    """Batches are shuffled once all parts are there, and ranks divide the whole."""
    return settings.changed(shuffle_batches=False, ranks=RankSettings())


def _tasks(
    partition: Partition,
    settings: PlanSettings,
    groups: NDArray[np.int64] | None,
    method_inputs: Mapping[str, Any],
) -> Iterator[PartTask]:
    count = len(partition.sizes)
    for number in range(count):
        rows = partition.rows_of(number)
        inputs = {name: [values[row] for row in rows] for name, values in method_inputs.items()}
        yield PartTask(number, count, settings, None if groups is None else groups[rows], inputs)


def _plans(
    tasks: Iterable[PartTask], read: ReadPart, watcher: Progress, engine: Engine, kept: KeptParts | None
) -> list[PartPlan]:
    """The plans of all parts in their order: those that an earlier run left are taken, new ones are kept."""
    there: list[PartPlan] = []
    if kept is not None:
        tasks = list(tasks)
        there = [part for task in tasks if (part := kept.load(task.number)) is not None]
        numbers = {part.number for part in there}
        tasks = [task for task in tasks if task.number not in numbers]
    for part in engine(tasks, read, watcher):
        there.append(part)
        if kept is not None:
            kept.save(part)
    return sorted(there, key=lambda part: part.number)


def _run_key(
    stream: PairStream,
    settings: PlanSettings,
    parts: int,
    groups: NDArray[np.int64] | None,
    method_inputs: Mapping[str, Any],
) -> str:
    """What decides the plans of the parts: the data, how it is normalised, the settings, and the version of gcbs."""
    decisive = {name: value for name, value in settings.values.items() if name not in HOW_ONLY}
    apart = None if groups is None else groups.tolist()
    known = [__version__, parts, stream.fingerprints, stream.normalize, decisive, apart, dict(method_inputs)]
    return json.dumps(known, sort_keys=True)


def _describe(partition: Partition) -> str:
    sizes = partition.sizes
    return (
        f"{len(sizes):,} parts of {int(sizes.min()):,} to {int(sizes.max()):,} rows; {partition.moved:,} rows moved to "
        "another part than their nearest, so that parts are whole batches"
    )
