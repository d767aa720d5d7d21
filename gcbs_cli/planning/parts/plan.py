"""A plan in parts: centres from a sample, rows to parts, a plan for each, one after the other in the order of parts."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from operator import attrgetter
from pathlib import Path

import numpy as np

from gcbs_cli.data.reading import PairStream
from gcbs_cli.orders import METHODS
from gcbs_cli.orders.finish import shuffle_groups
from gcbs_cli.plan_file.manifest import PartitionsRecord
from gcbs_cli.planning.parts.part import Engine, PartPlan, PartTask, plan_here
from gcbs_cli.planning.parts.partition import (
    SAMPLE_ROWS,
    SLACK,
    Partition,
    learn_centres,
    make_partition,
    sample_means,
)
from gcbs_cli.planning.parts.ray_engine import import_ray, plan_on_ray
from gcbs_cli.planning.parts.scattered import scattered
from gcbs_cli.planning.plan import PlanResult
from gcbs_cli.planning.room import Forecast, check_room, forecast_share, needed, promised
from gcbs_cli.products.devices import ALL_GPUS, choose_backend, devices_named
from gcbs_cli.settings.plan import MOST_PARTS, PlanSettings, PlanWorkSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress, Stopwatch

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
    engine: Engine | None = None,
) -> PlanResult:
    """Plan all rows in `settings.partitions` parts, holding the rows of one part at a time.

    beside: the output, next to which the rows lie on disk in the order of their parts meanwhile (None: the temporary
    folder); engine: by default that of the settings. The other arguments are those of `make_plan`. The permutation
    depends on neither engine, device nor tile size.
    Raises BadInput where settings and data do not fit, before any part is planned as far as it can be known.
    """
    progress, engine = progress or Progress(), engine or engine_of(settings)
    clock = Stopwatch(progress)
    METHODS[settings.method].check()
    count, expected = _parts(stream, settings)
    otherwise = "use fewer rows" if settings.partitions == "auto" else "use more --partitions"
    check_room(-(-stream.rows // count), expected, settings, "the plan", otherwise)
    progress.note(f"expecting {expected}")
    with clock.step("centres"):
        centres = learn_centres(sample_means(stream, settings.seed), count, settings.seed)
    with clock.step("parts"):
        partition = make_partition(stream, centres, settings.batch_size)
    # Batches are shuffled once all parts are there, and ranks divide the whole.
    each = settings.changed(shuffle_batches=False, world_size=None, gather=False)
    each.check_rows(int(partition.sizes.min()))
    progress.note(
        f"{count:,} parts of {partition.sizes.min():,} to {partition.sizes.max():,} rows; {partition.moved:,} rows "
        "are not in their nearest part, so that parts are whole batches"
    )
    with clock.step("rows to parts"), scattered(stream, partition, beside) as read, clock.step("plans"):
        tasks = _tasks(partition, each, groups, texts)
        plans = sorted(engine(tasks, read, progress), key=attrgetter("number"))
    clock.seconds["rows to parts"] -= clock.seconds["plans"]
    perm = np.concatenate([partition.rows_of(part.number)[part.order] for part in plans])
    if settings.shuffle_batches:
        perm = shuffle_groups(perm, settings.batch_size, settings.seed)
    inside = [part.too_hard_inside for part in plans if part.too_hard_inside is not None]
    return PlanResult(
        perm,
        settings,
        ", ".join(sorted({part.device for part in plans})),
        seconds=clock.seconds,
        too_hard_inside=sum(inside) if inside else None,
        partitions=_record(partition, plans, settings.engine, groups is not None),
    )


def _parts(stream: PairStream, settings: PlanSettings) -> tuple[int, Forecast]:
    """How many parts, and what the plan takes with them: for `auto`, of at most 131,072 rows, and so many that
    --max-memory suffices, if any do. Raises BadInput where the rows do not give each part a batch.
    """
    rows, size, asked = stream.rows, settings.batch_size, settings.partitions
    if isinstance(asked, int):
        batches = rows // size
        if asked > batches:
            raise BadInput(
                f"--partitions {asked:,}: the {rows:,} rows make {batches:,} batches of {size}, fewer than one for "
                "each part; ask for fewer parts"
            )
        return asked, _forecast(stream, settings, asked)
    least = max(size, int(settings.per_row or 0) + 1)  # rows of a part
    most = min(rows // least, MOST_PARTS)
    count = min(ceil(rows / AUTO_PART_ROWS), most)
    expected = _forecast(stream, settings, count)
    while expected.memory > (settings.max_memory or expected.memory) and count < most:
        more = min(count + 1 + count // 4, most)
        fewer_bytes = _forecast(stream, settings, more)
        if fewer_bytes.memory >= expected.memory:  # the sample that centres are learnt from takes most
            break
        count, expected = more, fewer_bytes
    return count, expected


def _forecast(stream: PairStream, settings: PlanSettings, parts: int) -> Forecast:
    """What the whole takes at once: its bookkeeping, and the largest part that may come or the sample for centres."""
    largest = ceil((1.0 + SLACK) * stream.rows / parts)
    if settings.engine == "ray":  # on machines that look at their own memory
        backend = choose_backend("cpu")
        part = Forecast(needed(largest, stream.dim, backend), 0)
    else:
        backend, reaching = choose_backend(settings.device), promised(None, settings.requested_quantile(largest))
        part = forecast_share(largest, stream.dim, reaching, [settings], backend)
    sample = BYTES_PER_SAMPLED * min(stream.rows, SAMPLE_ROWS) * (stream.dim + parts)
    sample += needed(0, stream.dim, backend)
    return replace(part, fixed=max(part.fixed, sample) + BYTES_PER_ROW * stream.rows, taken=0)


def engine_of(work: PlanWorkSettings) -> Engine:
    """How parts are planned. Raises BadInput for devices that do not fit the engine, and where Ray is not installed."""
    if work.engine == "local":
        return partial(plan_here, devices=devices_named(work.device))
    if "," in work.device or work.device == ALL_GPUS:
        raise BadInput(
            f"--device {work.device}: names GPUs of this machine; with --engine ray each part asks the cluster for one "
            "GPU, wherever it is: use --device cuda"
        )
    import_ray()
    return partial(plan_on_ray, address=work.address)


def _tasks(
    partition: Partition, settings: PlanSettings, groups: Ints | None, texts: Sequence[str] | None
) -> list[PartTask]:
    tasks, count = [], len(partition.sizes)
    taken = 0 if settings.engine == "ray" else BYTES_PER_ROW * len(partition.members)
    for number in range(count):
        rows = partition.rows_of(number)
        ids, words = None if groups is None else groups[rows], None if texts is None else [texts[row] for row in rows]
        tasks.append(PartTask(number, count, settings, ids, words, taken))
    return tasks


def _record(partition: Partition, plans: list[PartPlan], engine: str, groups: bool) -> PartitionsRecord:
    """Sizes in the order of the parts, and what their graphs were."""
    edges = sum(part.edges for part in plans)
    seconds: Counter[str] = Counter()
    for part in plans:
        seconds.update(part.seconds)
    return PartitionsRecord(
        parts=len(plans),
        sizes=partition.sizes.tolist(),
        moved=partition.moved,
        engine=engine,
        thresholds=[part.threshold for part in plans if part.threshold is not None] or None,
        edges=edges,
        isolated=sum(part.isolated for part in plans),
        max_degree=max(part.max_degree for part in plans),
        in_batch_edge_share=sum(part.in_batch for part in plans) / edges if edges else None,
        seconds_of_parts=dict(seconds),
        groups=groups,
    )
