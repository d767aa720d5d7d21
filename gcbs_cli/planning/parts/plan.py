"""A plan in parts: centres from a sample, rows to parts, a plan for each, one after the other in the order of parts."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path

import numpy as np

from gcbs_cli.data.reading import PairStream
from gcbs_cli.orders import METHODS
from gcbs_cli.orders.finish import shuffle_groups
from gcbs_cli.plan_file.manifest import PartitionsRecord
from gcbs_cli.planning.memory import MemoryForecast, check_memory, fixed_bytes, forecast_plan
from gcbs_cli.planning.parts.part import Engine, PartTask, plan_here
from gcbs_cli.planning.parts.partition import SAMPLE_ROWS, Partition, learn_centres, make_partition
from gcbs_cli.planning.parts.ray_engine import plan_on_ray
from gcbs_cli.planning.parts.scattered import scattered
from gcbs_cli.planning.plan import PlanResult
from gcbs_cli.products.devices import choose_backend, devices_named
from gcbs_cli.products.operations import Backend
from gcbs_cli.settings.plan import MOST_PARTS, PlanSettings, PlanWorkSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress, Stopwatch
from gcbs_cli.system.version import required

AUTO_PART_ROWS = 1 << 17
"""Rows of a part where no number is asked for: its pass takes seconds to minutes, its graph some hundred megabytes."""
BYTES_PER_ROW = 150
"""Of all rows, whatever their width: their best parts, the parts, the order, copies of these (measured)."""
BYTES_PER_SAMPLED = 16
"""For each coordinate of a row from which centres are learnt, and each of its products with them (measured)."""


def plan_in_parts(
    stream: PairStream,
    settings: PlanSettings,
    progress: Progress | None = None,
    *,
    groups: Ints | None = None,
    texts: Sequence[str] | None = None,
    beside: Path | None = None,
) -> PlanResult:
    """Plan all rows in `settings.partitions` parts, holding the rows of one part at a time.

    beside: the output, next to which the rows lie on disk in the order of their parts meanwhile (None: the temporary
    folder). The other arguments are those of `make_plan`. The permutation depends on neither engine, device nor tile
    size.
    Raises BadInput where settings and data do not fit, before any part is planned as far as it can be known.
    """
    engine = engine_of(settings)
    clock = Stopwatch(progress)
    progress = clock.watcher
    METHODS[settings.method].check()
    backend = choose_backend("cpu" if settings.engine == "ray" else settings.device, settings.chunk_rows)
    count = _part_count(stream, settings, backend)
    forecast = _forecast(stream, settings, backend, count)
    check_memory(forecast, settings, "the plan", "use more --partitions or fewer rows")
    progress.note(f"expecting {forecast}")
    with clock.step("centres"):
        centres = learn_centres(stream, count, settings.seed)
    with clock.step("parts"):
        partition = make_partition(stream, centres, settings.batch_size)
    tasks = _tasks(partition, settings, groups, texts)
    with clock.step("plans"), scattered(stream, partition, beside) as read:
        plans = []
        for plan in engine(tasks, read):
            plans.append(plan)
            progress.progress(len(plans), count)
    perm = np.concatenate([rows[plan.perm] for rows, plan in zip(partition, plans, strict=True)])
    if settings.shuffle_batches:
        perm = shuffle_groups(perm, settings.batch_size, settings.seed)
    return PlanResult(
        perm,
        settings,
        ", ".join(sorted({plan.device for plan in plans})),
        clock.seconds,
        partitions=_record(partition, plans),
    )


def _part_count(stream: PairStream, settings: PlanSettings, backend: Backend) -> int:
    """How many parts: for `auto`, of at most 131,072 rows, and so many that --max-memory suffices, if any do.

    Raises BadInput where the rows do not give each part a batch.
    """
    rows, size, parts, memory = stream.rows, settings.batch_size, settings.partitions, settings.max_memory
    if isinstance(parts, int):
        if parts * size > rows:
            raise BadInput(
                f"--partitions {parts:,}: the {rows:,} rows make {rows // size:,} batches of {size}, fewer than one "
                "for each part; ask for fewer parts"
            )
        return parts
    fewest_rows = max(size, int(settings.per_row or 0) + 2)
    most = min(rows // fewest_rows, MOST_PARTS)
    fewest = min(ceil(rows / AUTO_PART_ROWS), most)
    counts = range(fewest, most + 1)
    fitting = (n for n in counts if memory is None or _forecast(stream, settings, backend, n).bytes <= memory)
    return next(fitting, fewest)


def _forecast(stream: PairStream, settings: PlanSettings, backend: Backend, parts: int) -> MemoryForecast:
    """What the whole takes at once: its bookkeeping, and the largest part that may come or the sample for centres."""
    largest = ceil(stream.rows / parts) + settings.batch_size
    part = forecast_plan(largest, stream.dim, settings, backend)
    if settings.engine == "ray":  # the graphs lie on machines that look at their own memory
        part = replace(part, entries=0)
    sample = BYTES_PER_SAMPLED * min(stream.rows, SAMPLE_ROWS) * (stream.dim + parts)
    sample += fixed_bytes(0, stream.dim, backend)
    return replace(part, fixed=max(part.fixed, sample) + BYTES_PER_ROW * stream.rows)


def engine_of(work: PlanWorkSettings) -> Engine:
    """How parts are planned. Raises BadInput where Ray is not installed."""
    if work.engine == "local":
        return partial(plan_here, devices=devices_named(work.device))
    required("ray", "--engine ray", "ray")
    return partial(plan_on_ray, address=work.address)


def _tasks(
    partition: Partition, settings: PlanSettings, groups: Ints | None, texts: Sequence[str] | None
) -> list[PartTask]:
    """One for each part. Raises BadInput where the settings do not fit the smallest part."""
    # Batches are shuffled once all parts are there, and ranks divide the whole.
    settings = settings.changed(shuffle_batches=False, world_size=None, gather=False)
    settings.check_rows(min(map(len, partition)))
    tasks = []
    for number, rows in enumerate(partition):
        part_groups = None if groups is None else groups[rows]
        part_texts = None if texts is None else [texts[row] for row in rows]
        tasks.append(PartTask(number, len(partition), settings, part_groups, part_texts))
    return tasks


def _record(partition: Partition, plans: list[PlanResult]) -> PartitionsRecord:
    """Sizes in the order of the parts, and what their graphs were."""
    figures = [plan.figures for plan in plans if plan.figures is not None]
    edges = sum(part.graph.edges for part in figures)
    shares = [(part.measures["plan"].in_batch_edge_share or 0.0) * part.graph.edges for part in figures]
    return PartitionsRecord(
        parts=len(plans),
        sizes=list(map(len, partition)),
        thresholds=[plan.threshold.similarity for plan in plans if plan.threshold is not None] or None,
        edges=edges,
        isolated=sum(part.graph.isolated for part in figures),
        in_batch_edge_share=sum(map(round, shares)) / edges if edges else None,
    )
