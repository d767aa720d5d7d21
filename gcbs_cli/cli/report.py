"""`gcbs report`: what a plan is worth."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from gcbs_cli import __version__
from gcbs_cli.cli.inputs import (
    command_line,
    files_read,
    open_inputs,
    planned_groups,
    read_ids,
    read_values,
    texts_of_rows,
)
from gcbs_cli.cli.output import Output, figure_table, text_table
from gcbs_cli.data import row_values
from gcbs_cli.data.files import shown
from gcbs_cli.data.reading import PairStream
from gcbs_cli.plan_file.manifest import InputsRecord, Manifest
from gcbs_cli.plan_file.permutation import verify_permutation
from gcbs_cli.plan_file.plans import load_plan
from gcbs_cli.plan_file.writing import check_outputs, write
from gcbs_cli.reports.basis import ReportInputs, RowFacts
from gcbs_cli.reports.figures import shown_in
from gcbs_cli.reports.headline import headline, summary, suspects_warning
from gcbs_cli.reports.losses import Measured, measure
from gcbs_cli.reports.page.page import report_page
from gcbs_cli.reports.sampled import sampled_report
from gcbs_cli.reports.schema import GapReport, GapReports, SampledReport
from gcbs_cli.settings.others import Report
from gcbs_cli.settings.plan import PRESET
from gcbs_cli.settings.report import ReportSettings

HINT = f"gcbs plan --preset {PRESET}"
"""What keeps suspected pairs apart."""


def report(settings: Report) -> None:
    """Report, and write the report and the page; warn where plan and data do not belong together."""
    out = Output(settings, settings.output or settings.html)
    perm, manifest = None, None
    if settings.perm is not None:
        plan = load_plan(settings.perm)
        perm, manifest = plan.perm, plan.manifest
    check_outputs([settings.output, settings.html], files_read(settings, manifest), force=settings.force)
    stream = open_inputs(settings, out, manifest)
    if perm is not None:
        verify_permutation(perm, stream.rows, shown(plan.name))
    report_settings = as_planned(settings, manifest)
    report_settings.check_rows(stream.rows)
    if manifest is not None:
        size = manifest.batch_size
        others = ", ".join(str(other) for other in report_settings.batch_sizes if other != size)
        if others:
            out.warn(f"{settings.perm} was planned for batches of {size}, but this report is for {others}")
    measured: list[Measured] = []
    reports: list[GapReport | SampledReport] = []
    with out:
        if settings.rows is None or perm is None:
            facts = _row_facts(settings, stream, manifest, out)
            measured = measure(ReportInputs(stream.read(), report_settings, out, facts), perm)
            reports += [one.report for one in measured]
        else:
            reports.append(sampled_report(stream, perm, settings.rows, report_settings, out))
    if manifest is not None and not manifest.is_from(stream.fingerprints):
        out.warn(f"{settings.perm} was planned from other data ({manifest.inputs.x.name}, {manifest.inputs.y.name})")
    if settings.html is not None:
        write(settings.html, _page(settings, stream, manifest, measured), force=settings.force)
    result = GapReports(results=[one.report for one in measured]) if len(reports) > 1 else reports[0]
    if settings.output is not None:
        write(settings.output, result.model_dump_json(indent=2) + "\n", force=settings.force)
    _show(reports, out, full=settings.full)
    out.result(result.model_dump(mode="json"))
    warning = suspects_warning([one.report for one in measured])
    if warning is not None:
        out.warn(warning)
        if _hint(manifest):
            out.note(f"hint: {_hint(manifest)} keeps most of them apart")


def _hint(manifest: Manifest | None) -> str:
    """What keeps suspected pairs apart; nothing where the plan was made so."""
    return "" if manifest is not None and "preset" in manifest.method_settings else HINT


def _row_facts(settings: Report, stream: PairStream, manifest: Manifest | None, out: Output) -> RowFacts:
    """What files, the plan and the raw rows say of the rows."""
    values = read_values(settings, "labels", stream.rows)
    labels = None
    if values is not None:
        labels = row_values.labels_of(values, f"--labels {settings.labels}", graded=settings.graded_labels)
    groups = read_ids(settings, "groups", stream.rows)
    if groups is None:
        groups = planned_groups(manifest, stream.rows, out)
    return RowFacts(
        positives=read_ids(settings, "positives", stream.rows),
        labels=labels,
        groups=groups,
        raw=None if settings.batch_coordinates is None else stream.read_raw(),
    )


def as_planned(settings: Report, manifest: Manifest | None) -> ReportSettings:
    """The settings of the command, and for the rest those of the plan; each part of a plan had its own threshold."""
    report_settings = settings.only(ReportSettings)
    if manifest is None:
        return report_settings
    planned: dict[str, Any] = {"batch_sizes": manifest.batch_size, "drop_last": manifest.drop_last}
    if manifest.temperature:
        planned["temperatures"] = manifest.temperature
    quantile = manifest.quantile
    if quantile is not None and not report_settings.model_fields_set & {"quantile", "per_row", "threshold"}:
        names = {"threshold": quantile.threshold, "per_row": quantile.per_row, "quantile": quantile.requested}
        planned |= next({name: value} for name, value in names.items() if value is not None)
    return ReportSettings(**planned | report_settings.model_dump(exclude_unset=True))


def _page(settings: Report, stream: PairStream, manifest: Manifest | None, measured: list[Measured]) -> str:
    """The page, with the names of plan and inputs, and at its foot what it takes to make the same again."""
    first = measured[0]
    names = [side.name for side in stream.sources]
    origin = {"gcbs": __version__, "command": " ".join(command_line()), **InputsRecord.of(stream).model_dump()}
    facts = {"This report": origin | dict(first.inputs.settings)}
    if first.perm is not None:
        names.insert(0, str(settings.perm))
    if manifest is not None:
        facts["Plan"] = {"file": settings.perm, **manifest.model_dump(), "command": " ".join(manifest.command)}
    ids = partial(row_values.read_ids, stream.x, column=settings.id_column)
    texts = partial(texts_of_rows, settings, stream)
    return report_page(measured, " · ".join(names), facts, ids, texts, _hint(manifest))


def _show(reports: Sequence[GapReport | SampledReport], out: Output, *, full: bool) -> None:
    """One report in a few lines, or `full` with a sentence a figure; several as a line each."""
    first = reports[0]
    rows = f"{first.n:,} pairs × {first.dim}"
    if isinstance(first, SampledReport):
        rows = f"{first.rows:,} of {first.n:,} rows, ± 95 %"
    scope = f"{rows}; {first.loss_kind} loss, batch size {first.batch_size}, temperature {first.temperature:g}"
    if len(reports) > 1:
        lines = [((one.loss_kind, str(one.batch_size), f"{one.temperature:g}"), one) for one in reports]
        out.table(figure_table(lines, ["loss", "k", "tau"], shown_in("many")))
    elif full:
        figures = []
        for figure in shown_in("table"):
            value = first.at(figure.path)
            random = first.at(figure.random) if figure.random else None
            if value is not None or random is not None:
                figures.append((figure.words, figure.text(value), figure.text(random), figure.meaning))
        table = text_table(figures, ["figure", "value", "random", "what it is"])
        out.table(headline(first), "", table, "", scope)
    else:
        out.table(text_table([("report", scope), *summary(first)]))
