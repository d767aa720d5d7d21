"""`gcbs plan`: embeddings in, permutation and manifest out."""

import time
from pathlib import Path
from threading import Thread

from gcbs_cli.cli.inputs import command_line, files_read, open_inputs, read_row_facts
from gcbs_cli.cli.output import Output, record_table, text_table
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.plan_file.manifest import Manifest
from gcbs_cli.plan_file.plans import check_plan_output, save_plan
from gcbs_cli.plan_file.writing import write
from gcbs_cli.planning.memory import check_memory, forecast_plans
from gcbs_cli.planning.plan import ADVICE, PlanResult, make_plan, makes_graph
from gcbs_cli.planning.record import plan_manifest
from gcbs_cli.products.devices import choose_backend, warm_up
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.settings.model import words
from gcbs_cli.settings.others import GroupFile, Plan, TextFile
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import show_size
from gcbs_cli.system.progress import Stopwatch

MOST_ISOLATED = 0.9
"""If more of the rows have no hard pair, the plan is all but random."""


def plan(settings: Plan) -> None:
    """Plan, and write the plan, the manifest and the report."""
    began = time.perf_counter()
    output = settings.output
    out = Output(settings, None if settings.dry_run else output)
    if not settings.dry_run:
        check_plan_output(output, files_read(settings), [settings.report], force=settings.force)
    stream = open_inputs(settings, out)
    plan_settings = settings.only(PlanSettings)
    plan_settings.check_rows(stream.rows)
    if settings.dry_run:
        if not makes_graph(plan_settings):
            raise BadInput(f"--dry-run: forecasts a graph, and --method {settings.method} makes none; leave it out")
        _forecast(stream.read(), plan_settings, out)
        return
    Thread(target=warm_up, args=[settings.device]).start()  # it takes as long as the reading
    row_facts = read_row_facts(settings, stream.rows)
    clock = Stopwatch(out)
    pairs = None
    with out:
        if settings.partitions is None:
            with clock.step("read"):
                pairs = stream.read()
            result = make_plan(pairs, plan_settings, out, **row_facts)
        else:
            from gcbs_cli.planning.parts.plan import plan_in_parts

            beside = None if output == "-" else Path(output)
            result = plan_in_parts(stream, plan_settings, out, beside=beside, **row_facts)
        manifest = plan_manifest(
            result,
            stream,
            command_line(),
            groups=row_facts["groups"],
            files=(settings.only(GroupFile), settings.only(TextFile)),
            seconds=clock.seconds,
        )
        save_plan(output, result.perm, manifest, force=settings.force)
        if settings.report is not None and pairs is not None:
            report = _report(pairs, result, row_facts["groups"], out)
            write(settings.report, report, force=settings.force)
    graph = manifest.graph or manifest.partitions
    if graph is not None and graph.isolated > MOST_ISOLATED * manifest.rows:
        out.warn(
            f"{graph.isolated:,} of {manifest.rows:,} rows have no hard pair, so nearly all batches are random; "
            "a larger --per-row, a lower --threshold or --graph top-m finds hard pairs"
        )
    out.table(text_table(_summary(manifest, output, time.perf_counter() - began).items()))
    out.result({"output": output, **manifest.model_dump(mode="json")})


def _report(pairs: PairedRows, result: PlanResult, groups: Ints | None, out: Output) -> str:
    """The report on the plan as JSON."""
    from gcbs_cli.reports.basis import RowFacts
    from gcbs_cli.reports.losses import make_reports
    from gcbs_cli.settings.report import report_on

    threshold = None if result.threshold is None else result.threshold.similarity
    report_settings = report_on(result.settings, threshold)
    report = make_reports(pairs, result.perm, report_settings, out, facts=RowFacts(groups=groups))[0]
    return report.model_dump_json(indent=2) + "\n"


def _forecast(pairs: PairedRows, settings: PlanSettings, out: Output) -> None:
    """Print the threshold, and about how many entries and how much memory the plan takes; write nothing."""
    backend = choose_backend(settings.device, settings.chunk_rows)
    forecast = forecast_plans(pairs, [settings], backend)
    check_memory(forecast, settings, "the plan", ADVICE, held=pairs.x.nbytes + pairs.y.nbytes)
    with out:
        out.step("quantile")
        threshold = find_threshold(pairs.grid, settings, settings.seed, backend, out.progress)
    record = {
        "options": " ".join(words(settings.changed(preset=None), always=("method",))),
        "rows": pairs.rows,
        "threshold": threshold.similarity,
        "interval": threshold.interval,
        "entries": forecast.entries,
        "memory": f"{show_size(forecast.bytes)} on {backend.name}",
        "written": None,
    }
    out.table(record_table(record))
    out.result(record)


def _summary(manifest: Manifest, output: str, seconds: float) -> dict[str, str]:
    """The plan in a few lines; the manifest has the rest."""
    full, rest = divmod(manifest.rows, manifest.batch_size)
    batches = f"{full:,} batches of {manifest.batch_size}" + (f" and one of {rest}" if rest else "")
    lines = {"pairs": f"{manifest.rows:,} × {manifest.inputs.x.dim} in {batches}"}
    if manifest.world_size is not None:
        each = "a share of every batch" if manifest.gather else f"{full // manifest.world_size:,} full batches"
        lines["ranks"] = f"{manifest.world_size}: {each} each"
    parts = manifest.partitions
    if parts is not None:
        lines["parts"] = f"{parts.parts:,} of {min(parts.sizes):,} to {max(parts.sizes):,} rows"
    lines["method"] = _method(manifest)
    graph = manifest.graph or parts
    if graph is not None and graph.edges:
        lines["hard pairs"] = f"{graph.edges:,}; {graph.isolated / manifest.rows:.1%} of the rows have none"
    share = manifest.in_batch_edge_share
    if share.get("plan") is not None:
        lines["in batches"] = f"{share['plan']:.1%} of them (random order {share['random']:.1%})"
    lines["seconds"] = f"{seconds:.2f}"
    lines["written"] = output
    return lines


def _method(manifest: Manifest) -> str:
    record = manifest.method_settings
    line = manifest.method + (f" (preset {record['preset']})" if "preset" in record else "")
    refinement = record.get("refinement")
    if refinement is not None:
        line += f", {refinement['swaps']:,} swaps in {refinement['sweeps']} sweeps"
    return line
