"""`gcbs report`: what a plan is worth."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from gcbs_cli import __version__
from gcbs_cli.cli.inputs import command_line, open_inputs, planned_groups, read_ids, read_values, texts_of_rows
from gcbs_cli.cli.output import Output, figure_table, text_table
from gcbs_cli.data import row_values
from gcbs_cli.data.files import shown
from gcbs_cli.data.reading import PairStream
from gcbs_cli.plan_file.manifest import InputsRecord, Manifest, permutation_hash, plan_files
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
from gcbs_cli.settings.plan import DEFAULT_MARGIN, EXCLUSIVE
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.arrays import Ints

HINT = f"gcbs plan --preset train --fn-margin {DEFAULT_MARGIN}"
"""What keeps suspected pairs apart."""


def report(settings: Report) -> None:
    """Report, and write the report and the page; warn where plan and data do not belong together."""
    out = Output(settings, settings.output or settings.html)
    row_files = (settings.groups, settings.positives, settings.labels, settings.texts)
    inputs = [settings.x, settings.y, *row_files, *plan_files(settings.perm)]
    check_outputs([settings.output, settings.html], inputs, force=settings.force)
    perm, manifest = None, None
    if settings.perm is not None:
        plan = load_plan(settings.perm)
        perm, manifest = plan.perm, plan.manifest
    stream = open_inputs(settings, out, manifest)
    if perm is not None:
        verify_permutation(perm, stream.rows, shown(plan.name))
    report_settings = as_planned(settings, manifest)
    report_settings.check_rows(stream.rows)
    planned_size = None if manifest is None else manifest.batch_size
    others = [str(size) for size in report_settings.batch_sizes if size != planned_size]
    if planned_size is not None and others:
        out.warn(
            f"{settings.perm} was planned for batches of {planned_size}, but this report is for {', '.join(others)}"
        )
    measured: list[Measured] = []
    reports: list[GapReport | SampledReport] = []
    with out:
        if settings.rows is None or perm is None:
            measured = _measured(settings, stream, perm, manifest, out)
            reports += [one.report for one in measured]
        else:
            reports.append(sampled_report(stream, perm, settings.rows, report_settings, out))
    stream.check_unchanged()
    if manifest is not None and not manifest.is_from(stream.fingerprints):
        out.warn(f"{settings.perm} was planned from other data ({manifest.inputs.x.name}, {manifest.inputs.y.name})")
    if settings.html is not None:
        write(settings.html, _page(settings, stream, manifest, measured))
    result = GapReports(results=[one.report for one in measured]) if len(reports) > 1 else reports[0]
    if settings.output is not None:
        write(settings.output, result.model_dump_json(indent=2) + "\n")
    _show(reports, out, full=settings.full)
    out.result(result.model_dump(mode="json"))
    warning = suspects_warning([one.report for one in measured])
    if warning is not None:
        out.warn(warning)
        if not _kept_apart(manifest):
            out.hint(f"{HINT} keeps most of them apart")


def _kept_apart(manifest: Manifest | None) -> bool:
    """Whether the plan was made with what the hint recommends, or with more."""
    margin = None if manifest is None else manifest.method_settings.get("fn_margin")
    return isinstance(margin, float) and margin <= DEFAULT_MARGIN


def _measured(
    settings: Report, stream: PairStream, perm: Ints | None, manifest: Manifest | None, out: Output
) -> list[Measured]:
    """The reports on all rows."""
    positives = read_ids(settings, "positives", stream.rows)
    groups = read_ids(settings, "groups", stream.rows)
    values = read_values(settings, "labels", stream.rows)
    labels = None
    if values is not None:
        labels = row_values.labels_of(values, f"--labels {settings.labels}", graded=settings.graded_labels)
    pairs = stream.read()
    same_data = manifest is None or manifest.is_from(stream.fingerprints)
    report_settings = as_planned(settings, manifest, same_data=same_data)
    part_sizes = None
    if manifest is not None and same_data:
        part_sizes = manifest.part_sizes
        if groups is None:
            groups = planned_groups(manifest, stream.rows, out)
    raw = None if report_settings.batch_coordinates is None else stream.read_raw()
    row_facts = RowFacts(positives, labels, groups, part_sizes, raw)
    return measure(ReportInputs(pairs, report_settings, out, row_facts), perm)


def as_planned(settings: Report, manifest: Manifest | None, *, same_data: bool = True) -> ReportSettings:
    """The settings of the command, and for the rest those of the plan.

    Its own threshold counts on its own data, its quantile or its entries a row on other data; each part of a plan had
    its own.
    """
    report_settings = settings.only(ReportSettings)
    if manifest is None:
        return report_settings
    planned: dict[str, Any] = {"batch_sizes": manifest.batch_size, "drop_last": manifest.drop_last}
    if manifest.temperature:
        planned["temperatures"] = manifest.temperature
    quantile = manifest.quantile
    if quantile is not None and not report_settings.model_fields_set & set(EXCLUSIVE):
        if quantile.threshold is not None and (same_data or quantile.requested is None):
            planned["threshold"] = quantile.threshold
        elif quantile.per_row is not None:
            planned["per_row"] = quantile.per_row
        else:
            planned["quantile"] = quantile.requested
    return ReportSettings(**planned | report_settings.model_dump(exclude_unset=True))


def _page(settings: Report, stream: PairStream, manifest: Manifest | None, measured: list[Measured]) -> str:
    """The page, with the names of plan and inputs, and at its foot what it takes to make the same again."""
    first = measured[0]
    names = [side.name for side in stream.sources]
    inputs = InputsRecord.of(stream).model_dump(mode="json")
    origin = {"gcbs": __version__, "command": " ".join(command_line()), **inputs, **dict(first.inputs.settings)}
    facts = {"This report": origin}
    if first.perm is not None:
        names.insert(0, str(settings.perm))
        facts["Plan"] = {"file": settings.perm, "hash of the order": permutation_hash(first.perm)}
        if manifest is not None:
            facts["Plan"] |= manifest.model_dump(mode="json") | {"command": " ".join(manifest.command)}
    ids = partial(row_values.read_ids, stream.x, column=settings.id_column)
    texts = partial(texts_of_rows, settings, stream)
    return report_page(measured, " · ".join(names), facts, ids, texts, "" if _kept_apart(manifest) else HINT)


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
        table = text_table(figures, ["figure", "value", "random", "what it is"], "lrrf")
        out.table(headline(first), "", table, "", scope)
    else:
        out.table(text_table([("report", scope), *summary(first)]))
