"""What `gcbs report` does once its options are parsed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gcbs_cli.cli.group_files import GroupsFile, planned_groups
from gcbs_cli.cli.inputs import InputOptions, ReadPair, read_pair
from gcbs_cli.cli.loss_options import LabelFiles
from gcbs_cli.cli.output import Mode, Output
from gcbs_cli.cli.report_page import PageSource, asked_only, make_page, with_neighbours
from gcbs_cli.cli.tables import report_tables
from gcbs_cli.cli.watching import watcher_for
from gcbs_cli.plan_file.manifest import ManifestEntry, entry_for, plan_files, planned_inputs, read_manifest
from gcbs_cli.plan_file.permutation import read_permutation
from gcbs_cli.plan_file.writing import check_outputs, write
from gcbs_cli.reports.basis import RowFacts
from gcbs_cli.reports.bsc import RowLabels
from gcbs_cli.reports.build import make_detailed_reports, make_reports
from gcbs_cli.reports.schema import GapReport, GapReports
from gcbs_cli.settings.plan import DEFAULT_BATCH_SIZE, DEFAULT_TEMPERATURE, GraphSettings
from gcbs_cli.settings.report import Loss, LossKind, ReportSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress

MANY_SUSPECTS_SHARE = 0.1
MANY_SUSPECTS_TIMES_RANDOM = 5
"""Suspected false negatives are many when they touch a tenth of the rows, five times as often as by chance."""


@dataclass(frozen=True)
class Asked:
    """What the user said and the manifest would otherwise say; None where nothing was said."""

    batch_sizes: list[int] | None
    temperatures: list[float] | None
    drop_last: bool | None
    graph: GraphSettings | None


@dataclass(frozen=True)
class ReportCommand:
    """One call of `gcbs report`."""

    inputs: InputOptions
    perm: str | None
    asked: Asked
    losses: Sequence[Loss]
    trials: int
    fn_margin: float
    quantile_method: str
    seed: int
    device: str
    tile_rows: int | None
    max_memory: int | None
    output: Path | None
    html: Path | None
    id_column: str | None
    mode: Mode
    force: bool
    label_files: LabelFiles = field(default_factory=LabelFiles)
    groups: GroupsFile = field(default_factory=GroupsFile)

    def run(self) -> None:
        """Check, read, report, write, show; warn where plan and data do not belong together."""
        out = Output(self.mode)
        check_outputs([self.output, self.html], self.files_read(), force=self.force)
        self._check_losses()
        manifest = None if self.perm in (None, "-") else read_manifest(Path(str(self.perm)))
        sources = self.inputs.open(planned_inputs(manifest))
        perm = None if self.perm is None else read_permutation(self.perm, sources[0].rows)
        entry = None if manifest is None or perm is None else entry_for(manifest, perm)
        settings = self._settings(entry)
        settings.check_rows(sources[0].rows)
        labels = self.label_files.read(sources[0].rows)
        groups = self.groups.read(sources[0].rows)
        pair = read_pair(sources, self.inputs, out)
        if entry is not None and not belongs(entry, pair):
            out.warning(f"{self.perm} was planned from other data ({entry.inputs.x.name}, {entry.inputs.y.name})")
            settings = self._settings(entry, same_data=False)
        elif groups is None:
            groups = planned_groups(entry, pair.x.rows, out)
        sizes = _part_sizes(entry) if belongs(entry, pair) else None
        facts = RowFacts(labels or RowLabels(), groups, sizes)
        self._warn_of_batch_size(out, entry, settings)
        with watcher_for(out) as watcher:
            if self.html is None:
                reports = make_reports(pair.unit, perm, settings, watcher, facts=facts)
            else:
                source = PageSource(sources, pair, self.perm, perm, entry, settings, self.id_column)
                reports = self._write_page(source, watcher, facts)
            pair.check_unchanged()
            self._save(reports)
        self._show(out, reports)
        warn_of_suspects(out, reports)

    def files_read(self) -> list[Path | str | None]:
        """What this command reads, for `check_outputs`."""
        beside = (self.groups.path, self.label_files.positives, self.label_files.labels)
        return [self.inputs.x, self.inputs.y, *beside, *plan_files(self.perm)]

    def _check_losses(self) -> None:
        kinds = {loss.kind for loss in self.losses}
        if self.label_files.given and LossKind.BSC not in kinds:
            raise BadInput("--positives and --labels go with --loss bsc")
        if self.html is not None and any(loss.has_own_terms for loss in self.losses):
            raise BadInput("--html: goes with --loss infonce, symmetric and simclr")

    def _write_page(self, source: PageSource, watcher: Progress, facts: RowFacts) -> list[GapReport]:
        """Write the page, whole or not at all; returns the reports that were asked for."""
        settings = source.settings
        every, details = make_detailed_reports(
            source.pair.unit, source.perm, with_neighbours(settings, source.pair.x.rows), watcher, facts=facts
        )
        reports = asked_only(every, settings)
        notes = [note for note in [suspects_warning(reports)] if note is not None]
        write(str(self.html), make_page(source, reports, every, details, notes))
        return reports

    def _settings(self, entry: ManifestEntry | None, *, same_data: bool = True) -> ReportSettings:
        asked = self.asked
        return ReportSettings.of(
            batch_sizes=asked.batch_sizes or [entry.batch_size if entry else DEFAULT_BATCH_SIZE],
            temperatures=asked.temperatures or [(entry and entry.temperature) or DEFAULT_TEMPERATURE],
            loss=[loss.kind for loss in self.losses],
            queue=self.losses[0].queue_batches,
            queue_mode=self.losses[0].queue_mode,
            loss_margin=self.losses[0].margin,
            graph=asked.graph or self._planned_graph(entry, same_data=same_data),
            trials=self.trials,
            seed=self.seed,
            fn_margin=self.fn_margin,
            drop_last=asked.drop_last if asked.drop_last is not None else bool(entry and entry.drop_last),
            device=self.device,
            chunk_rows=self.tile_rows,
            max_memory=self.max_memory,
        )

    def _planned_graph(self, entry: ManifestEntry | None, *, same_data: bool) -> GraphSettings:
        """The plan's own threshold on its own data, its quantile on other data, the default without a manifest."""
        quantile = entry.quantile if entry else None
        if quantile is None:
            return GraphSettings.of(quantile_method=self.quantile_method)
        if quantile.threshold is None:  # each part had its own
            return GraphSettings.of(quantile=quantile.requested, quantile_method=self.quantile_method)
        if same_data or quantile.requested is None:
            return GraphSettings(threshold=quantile.threshold)
        return GraphSettings.of(quantile=quantile.requested, quantile_method=self.quantile_method)

    def _warn_of_batch_size(self, out: Output, entry: ManifestEntry | None, settings: ReportSettings) -> None:
        others = [size for size in settings.batch_sizes if entry is not None and size != entry.batch_size]
        if entry is not None and others:
            sizes = ", ".join(map(str, others))
            out.warning(f"{self.perm} was planned for batches of {entry.batch_size}, and is reported for {sizes}")

    def _save(self, reports: list[GapReport]) -> None:
        if self.output is not None:
            write(self.output, _whole(reports).model_dump_json(indent=2) + "\n")

    def _show(self, out: Output, reports: list[GapReport]) -> None:
        out.table(report_tables(reports))
        out.result(_whole(reports).model_dump(mode="json"))


def _whole(reports: list[GapReport]) -> GapReport | GapReports:
    return reports[0] if len(reports) == 1 else GapReports(results=reports)


def _part_sizes(entry: ManifestEntry | None) -> list[int] | None:
    """Rows of each part of a plan that was made in parts, unless its batches were shuffled over them."""
    if entry is None or entry.partitions is None:
        return None
    order = entry.method_settings.get("batch_order", {})
    shuffled = order.get("shuffle") or order.get("shuffle_batches")
    return None if shuffled else list(entry.partitions.sizes)


def belongs(entry: ManifestEntry | None, pair: ReadPair) -> bool:
    """Whether the plan was made from this very data, by content hash."""
    if entry is None:
        return False
    return (entry.inputs.x.fingerprint, entry.inputs.y.fingerprint) == (pair.x.fingerprint, pair.y.fingerprint)


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
