"""`gcbs report`: what a plan is worth."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.cli.inputs import open_inputs, planned_groups, read_ids, read_pair, show_order
from gcbs_cli.cli.output import Output
from gcbs_cli.cli.report_page import PageSource, asked_only, make_page, with_neighbours
from gcbs_cli.cli.tables import report_tables
from gcbs_cli.cli.watching import show_progress
from gcbs_cli.data import EmbeddingSource
from gcbs_cli.data.reading import PairStream
from gcbs_cli.data.row_values import check_row_count, read_row_flags
from gcbs_cli.plan_file.manifest import ManifestEntry, entry_for, plan_files, planned_inputs, read_manifest
from gcbs_cli.plan_file.permutation import read_permutation
from gcbs_cli.plan_file.writing import check_outputs, write
from gcbs_cli.reports.basis import RowFacts
from gcbs_cli.reports.bsc import RowLabels
from gcbs_cli.reports.build import make_detailed_reports, make_reports
from gcbs_cli.reports.sampled import check_sample, sampled_report
from gcbs_cli.reports.schema import GapReport, GapReports, SampledReport
from gcbs_cli.settings.others import Report
from gcbs_cli.settings.plan import GraphSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.progress import Progress

MANY_SUSPECTS_SHARE = 0.1
MANY_SUSPECTS_TIMES_RANDOM = 5
"""Suspected false negatives are many when they touch a tenth of the rows, five times as often as by chance."""

Sources = tuple[EmbeddingSource, EmbeddingSource]


def report(settings: Report) -> None:
    """Report, and write the report and the page; warn where plan and data do not belong together."""
    out, written = Output(settings.written), settings.written
    beside = (settings.groups.groups, settings.labels.positives, settings.labels.labels)
    read = [settings.inputs.x, settings.inputs.y, *beside, *plan_files(settings.perm)]
    check_outputs([written.output, written.html], read, force=written.force)
    manifest = None if settings.perm in (None, "-") else read_manifest(Path(str(settings.perm)))
    sources = open_inputs(settings.inputs, planned_inputs(manifest))
    perm = None if settings.perm is None else read_permutation(settings.perm, sources[0].rows)
    entry = None if manifest is None or perm is None else entry_for(manifest, perm)
    asked = as_planned(settings, entry)
    asked.check_rows(sources[0].rows)
    with show_progress(out) as progress:
        if settings.rows is not None and perm is not None:
            reports: Sequence[GapReport | SampledReport] = [
                _sampled(settings, settings.rows, asked, sources, perm, entry, out, progress)
            ]
        else:
            reports = _whole(settings, asked, sources, perm, entry, out, progress)
    whole = reports[0] if len(reports) == 1 else GapReports(results=_gap_reports(reports))
    if written.output is not None:
        write(written.output, whole.model_dump_json(indent=2) + "\n")
    out.table(report_tables(reports))
    out.result(whole.model_dump(mode="json"))
    warn_of_suspects(out, _gap_reports(reports))


def _gap_reports(reports: Sequence[GapReport | SampledReport]) -> list[GapReport]:
    return [report for report in reports if isinstance(report, GapReport)]


def _sampled(
    settings: Report,
    wanted: int,
    asked: ReportSettings,
    sources: Sources,
    perm: NDArray[np.int64],
    entry: ManifestEntry | None,
    out: Output,
    progress: Progress,
) -> SampledReport:
    """The report on some rows of the plan."""
    check_sample(wanted, asked, sources[0].rows)
    for source in sources:
        show_order(source, out)
    stream = PairStream(*sources, normalize=settings.inputs.columns.normalize)
    found = sampled_report(stream, perm, wanted, asked, progress)
    stream.check_unchanged()
    if entry is not None and not belongs(entry, stream.fingerprints):
        _warn_of_other_data(settings, entry, out)
    return found


def _whole(
    settings: Report,
    asked: ReportSettings,
    sources: Sources,
    perm: NDArray[np.int64] | None,
    entry: ManifestEntry | None,
    out: Output,
    progress: Progress,
) -> list[GapReport]:
    """The reports on all rows, and the page where one is wanted."""
    rows, html = sources[0].rows, settings.written.html
    labels = _read_labels(settings.labels, rows)
    groups = read_ids(settings.groups.groups, settings.groups.groups_column, rows, "--groups")
    pair = read_pair(sources, out, normalize=settings.inputs.columns.normalize)
    sizes = None
    if entry is not None and not belongs(entry, pair.fingerprints):
        _warn_of_other_data(settings, entry, out)
        asked = as_planned(settings, entry, same_data=False)
    else:
        groups = planned_groups(entry, rows, out) if groups is None else groups
        sizes = _part_sizes(entry)
    _warn_of_batch_size(settings, asked, entry, out)
    facts = RowFacts(labels, groups, sizes)
    if html is None:
        reports = make_reports(pair.unit, perm, asked, progress, facts=facts)
        pair.check_unchanged()
        return reports
    source = PageSource(sources, pair, settings.perm, perm, entry, asked, settings.names.id_column)
    return _write_page(html, source, facts, progress)


def _write_page(html: str, source: PageSource, facts: RowFacts, progress: Progress) -> list[GapReport]:
    """Write the page; returns the reports that were asked for."""
    every_setting = with_neighbours(source.settings, source.pair.unit.rows)
    every, details = make_detailed_reports(source.pair.unit, source.perm, every_setting, progress, facts=facts)
    reports = asked_only(every, source.settings)
    notes = [note for note in [suspects_warning(reports)] if note is not None]
    source.pair.check_unchanged()
    write(html, make_page(source, reports, every, details, notes))
    return reports


def as_planned(settings: Report, entry: ManifestEntry | None, *, same_data: bool = True) -> ReportSettings:
    """What was asked, and for the rest what the plan was made with."""
    asked = settings.report.changed(loss=settings.losses)
    if entry is None:
        return asked
    planned: dict[str, Any] = {"batch_sizes": entry.batch_size, "drop_last": entry.drop_last}
    if entry.temperature:
        planned["temperatures"] = entry.temperature
    changes = {name: value for name, value in planned.items() if name not in asked.given}
    if not asked.given & set(GraphSettings.exclusive):
        changes |= _planned_graph(entry, same_data=same_data)
    return asked.changed(**changes)


def _planned_graph(entry: ManifestEntry, *, same_data: bool) -> dict[str, float | None]:
    """The plan's own threshold on its own data, its quantile on other data; each part of a plan had its own."""
    quantile = entry.quantile
    if quantile is None:
        return {}
    if quantile.threshold is not None and (same_data or quantile.requested is None):
        return {"threshold": quantile.threshold}
    return {"quantile": quantile.requested}


def _read_labels(files: Report.Labels, rows: int) -> RowLabels:
    """The positives of the loss bsc. Raises BadInput for a file that has not one value for each of the N rows."""
    asks = None
    if files.labels is not None:
        asks = read_row_flags(files.labels, "--labels", files.labels_column)
        check_row_count(len(asks), rows, files.labels, "--labels")
    return RowLabels(read_ids(files.positives, files.positives_column, rows, "--positives"), asks)


def _warn_of_other_data(settings: Report, entry: ManifestEntry, out: Output) -> None:
    out.warning(f"{settings.perm} was planned from other data ({entry.inputs.x.name}, {entry.inputs.y.name})")


def _warn_of_batch_size(settings: Report, asked: ReportSettings, entry: ManifestEntry | None, out: Output) -> None:
    others = [size for size in asked.batch_sizes if entry is not None and size != entry.batch_size]
    if entry is not None and others:
        sizes = ", ".join(map(str, others))
        out.warning(f"{settings.perm} was planned for batches of {entry.batch_size}, and is reported for {sizes}")


def _part_sizes(entry: ManifestEntry | None) -> list[int] | None:
    """Rows of each part of a plan that was made in parts, unless its batches were shuffled over them."""
    if entry is None or entry.partitions is None:
        return None
    order = entry.method_settings.get("batch_order", {})
    shuffled = order.get("shuffle") or order.get("shuffle_batches")
    return None if shuffled else list(entry.partitions.sizes)


def belongs(entry: ManifestEntry, fingerprints: tuple[str, str]) -> bool:
    """Whether the plan was made from this very data, by content hash."""
    return (entry.inputs.x.fingerprint, entry.inputs.y.fingerprint) == fingerprints


def warn_of_suspects(out: Output, reports: list[GapReport]) -> None:
    """One warning when the plan packs many suspected false negatives into its batches."""
    warning = suspects_warning(reports)
    if warning is not None:
        out.warning(warning)
        out.hint("a plan with --graph top-m --refine --fn-margin 0.95 keeps most of them apart")


def suspects_warning(reports: list[GapReport]) -> str | None:
    """The warning, for the first report that deserves it."""
    for report in reports:
        false = report.false_negatives
        if false.suspected_pairs is None or false.rows is None:
            continue
        touched = false.rows / report.n
        if touched > MANY_SUSPECTS_SHARE and false.suspected_pairs > MANY_SUSPECTS_TIMES_RANDOM * false.random:
            return (
                f"{false.suspected_pairs:,} suspected false negatives share a batch, on {touched:.0%} of the rows "
                f"({false.random:,.0f} pairs in random batches): negatives that the model is taught to push apart "
                "may be right answers"
            )
    return None
