"""`gcbs plan`: embeddings in, permutation and manifest out."""

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.cli.inputs import command_line, open_inputs, read_groups, read_texts
from gcbs_cli.cli.output import Output
from gcbs_cli.cli.tables import forecast_table, plan_table
from gcbs_cli.cli.watching import show_progress
from gcbs_cli.data import PairStream
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.plan_file.manifest import InputsRecord, ManifestEntry
from gcbs_cli.plan_file.save import check_plan_output, save_plan
from gcbs_cli.plan_file.writing import write
from gcbs_cli.planning.plan import PlanResult, make_plan
from gcbs_cli.planning.record import full_batches_per_rank, plan_entry
from gcbs_cli.settings.others import Plan
from gcbs_cli.settings.plan import DEFAULT_MARGIN
from gcbs_cli.system.errors import GcbsError
from gcbs_cli.system.progress import Progress


def plan(settings: Plan) -> None:
    """Plan, and write the plan, the manifest and the report."""
    began = time.perf_counter()
    output, in_parts = settings.output, settings.plan.work.partitions is not None
    out = Output(settings.written, results_to_stderr=output == "-")
    inputs = settings.inputs
    if not settings.dry_run:
        read = [inputs.x, inputs.y, settings.groups.groups, settings.text.text]
        check_plan_output(output, read, [settings.report], force=settings.written.force)
    stream = open_inputs(inputs, out)
    settings.plan.check_rows(stream.rows)
    if settings.dry_run:
        _forecast(settings, stream.read(), out)
        return
    with show_progress(out) as progress:
        entry = (_in_parts if in_parts else _whole)(settings, stream, progress)
    out.table(plan_table(entry, output, time.perf_counter() - began))
    out.result({"output": output, **entry.model_dump(mode="json"), **full_batches_per_rank(entry)})


def _whole(settings: Plan, stream: PairStream, progress: Progress) -> ManifestEntry:
    """Plan all rows as one graph, and write the plan and the report."""
    began = time.perf_counter()
    pair = stream.read()
    reading = time.perf_counter() - began
    texts, groups = read_texts(settings.text, pair.rows), read_groups(settings.groups, pair.rows)
    result = make_plan(pair, settings.plan, progress, groups=groups, inputs=texts)
    stream.check_unchanged()
    entry = _entry(settings, result, InputsRecord.of(stream.sources, stream.fingerprints), groups, {"read": reading})
    save_plan(settings.output, result.perm, entry)
    try:  # the plan is there whatever becomes of the report, which may need more memory
        _report(settings, pair, result, groups, progress)
    except GcbsError as error:
        raise type(error)(f"{error}; the plan itself is written ({settings.output})") from error
    return entry


def _in_parts(settings: Plan, stream: PairStream, progress: Progress) -> ManifestEntry:
    """Plan the rows part by part, and write the plan."""
    from gcbs_cli.planning.parts.kept import clear
    from gcbs_cli.planning.parts.plan import plan_in_parts

    output, kept = settings.output, settings.work_dir
    work_dir = None if kept is None else Path(kept)
    groups = read_groups(settings.groups, stream.rows)
    result = plan_in_parts(
        stream,
        settings.plan,
        progress,
        groups=groups,
        inputs=read_texts(settings.text, stream.rows),
        beside=None if output == "-" else Path(output),
        work_dir=work_dir,
    )
    stream.check_unchanged()
    entry = _entry(settings, result, InputsRecord.of(stream.sources, stream.fingerprints), groups, {})
    save_plan(output, result.perm, entry)
    if work_dir is not None:
        clear(work_dir)
    return entry


def _entry(
    settings: Plan,
    result: PlanResult,
    inputs: InputsRecord,
    groups: NDArray[np.int64] | None,
    seconds: dict[str, float],
) -> ManifestEntry:
    files, normalize = (settings.groups, settings.text), settings.inputs.columns.normalize
    command = command_line()
    return plan_entry(result, inputs, command, normalize=normalize, groups=groups, files=files, seconds=seconds)


def _report(
    settings: Plan, pair: PairedRows, result: PlanResult, groups: NDArray[np.int64] | None, progress: Progress
) -> None:
    """Write the report on the plan, where one is wanted."""
    if settings.report is None:
        return
    from gcbs_cli.reports.basis import RowFacts
    from gcbs_cli.reports.build import make_reports
    from gcbs_cli.settings.report import ReportSettings

    asked, margin = settings.plan, settings.plan.false_negatives.fn_margin
    graph = asked.graph if result.threshold is None else type(asked.graph)(threshold=result.threshold.similarity)
    wanted = ReportSettings.of(
        batch_sizes=[asked.batch_size],
        temperatures=[asked.temperature],
        graph=graph,
        seed=asked.seed,
        drop_last=asked.drop_last,
        device=asked.work.device,
        chunk_rows=asked.work.chunk_rows,
        max_memory=asked.work.max_memory,
        fn_margin=DEFAULT_MARGIN if margin is None else margin,
    )
    report = make_reports(pair, result.perm, wanted, progress, facts=RowFacts(groups=groups))[0]
    write(settings.report, report.model_dump_json(indent=2) + "\n")


def _forecast(settings: Plan, pair: PairedRows, out: Output) -> None:
    """Say what the sample foretells, and write nothing."""
    from gcbs_cli.planning.room import forecast
    from gcbs_cli.products.devices import choose_backend
    from gcbs_cli.products.threshold import find_threshold

    asked = settings.plan
    backend = choose_backend(asked.work.device)
    threshold = find_threshold(pair.grid, asked.graph, asked.seed, backend)
    expected = forecast(pair, threshold, asked, backend)
    out.table(forecast_table(pair.rows, threshold, expected, backend.name))
    out.result(
        {
            "rows": pair.rows,
            "threshold": threshold.similarity,
            "interval": threshold.interval,
            "expected_entries": expected.entries,
            "expected_memory": expected.memory,
            "summary": f"expecting {expected}",
        }
    )
