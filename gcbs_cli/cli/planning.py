"""What `gcbs plan` does once its options are parsed."""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli import __version__
from gcbs_cli.cli.group_files import GroupsFile
from gcbs_cli.cli.inputs import InputOptions, ReadPair, command_line, read_pair
from gcbs_cli.cli.output import Mode, Output
from gcbs_cli.cli.tables import forecast_table, plan_table
from gcbs_cli.cli.texts import TextOptions
from gcbs_cli.cli.watching import watcher_for
from gcbs_cli.data import UnitRows
from gcbs_cli.orders import planner_named
from gcbs_cli.plan_file.manifest import (
    GraphRecord,
    InputRecord,
    InputsRecord,
    ManifestEntry,
    QuantileRecord,
    permutation_hash,
)
from gcbs_cli.plan_file.save import check_plan_output, save_plan
from gcbs_cli.plan_file.writing import write
from gcbs_cli.planning.plan import GraphFigures, PlanResult, make_plan
from gcbs_cli.planning.room import describe, forecast
from gcbs_cli.products.operations import choose_backend
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.settings.plan import BSC_METHODS, DEFAULT_MARGIN, BatchOrderSettings, GraphSettings, PlanSettings
from gcbs_cli.system.errors import BadInput, GcbsError
from gcbs_cli.system.progress import Progress

RECORDED_LIBRARIES = ("numpy", "scipy", "torch")


@dataclass(frozen=True)
class PlanCommand:
    """One call of `gcbs plan`. `began`: perf_counter at its start."""

    inputs: InputOptions
    settings: PlanSettings
    output: str
    report_path: Path | None
    mode: Mode
    force: bool
    began: float
    work_dir: Path | None = None
    text: TextOptions = field(default_factory=TextOptions)
    groups: GroupsFile = field(default_factory=GroupsFile)

    def run(self) -> None:
        """Check, read, plan, save, show. Raises GcbsError before anything is written where something does not fit."""
        out = Output(self.mode, results_to_stderr=self.output == "-")
        if self.output == "-" and self.mode.is_json:
            raise BadInput("--json with -o -: stdout carries the permutation; write it to a file, or leave out --json")
        self.check_outputs()
        planner_named(self.settings.method)
        self.text.check([self.settings.method])
        pair, reading = self._read(out)
        inputs = self.text.read(pair.x.rows)
        groups = self.groups.read(pair.x.rows)
        with watcher_for(out) as watcher:
            result = make_plan(pair.unit, self.settings, watcher, groups=groups, method_inputs=inputs)
            pair.check_unchanged()
            entry = self._entry(pair, result, reading, self.groups.as_record(groups))
            save_plan(self.output, result.perm, entry)
            try:  # the plan is there whatever becomes of the report, which may need more memory
                self._report(pair, result, groups, watcher)
            except GcbsError as error:
                raise type(error)(f"{error}; the plan itself is written ({self.output})") from error
        out.table(plan_table(entry, self.output, time.perf_counter() - self.began))
        out.result({"output": self.output, **entry.model_dump(mode="json"), **full_batches_per_rank(entry)})

    def check_outputs(self) -> None:
        """Refuse, before any work, outputs that cannot be written or that this command reads."""
        inputs = [self.inputs.x, self.inputs.y, self.groups.path, self.text.path]
        check_plan_output(self.output, inputs, [self.report_path], force=self.force)

    def estimate(self) -> None:
        """The forecast alone, from the sample: nothing is written."""
        out = Output(self.mode)
        pair, _ = self._read(out)
        self.settings.check_rows(pair.x.rows)
        backend = choose_backend(self.settings.work.device)
        threshold = find_threshold(pair.unit.grid, self.settings.graph, self.settings.seed, backend)
        expected = forecast(pair.unit, threshold, self.settings, backend)
        out.table(forecast_table(pair.x.rows, threshold, expected, backend.name))
        out.result(
            {
                "rows": pair.x.rows,
                "threshold": threshold.similarity,
                "interval": threshold.interval,
                "expected_entries": expected.entries,
                "expected_memory": expected.memory,
                "summary": describe(expected),
            }
        )

    def _read(self, out: Output) -> tuple[ReadPair, float]:
        """Both sides and the seconds it took; the batch size is checked before any row is read."""
        began = time.perf_counter()
        sources = self.inputs.open()
        self.settings.check_rows(sources[0].rows)
        return read_pair(sources, self.inputs, out), time.perf_counter() - began

    def _report(
        self,
        pair: ReadPair,
        result: PlanResult,
        groups: NDArray[np.int64] | None,
        watcher: Progress,
    ) -> None:
        """Write the report, where one is wanted."""
        if self.report_path is None:
            return
        from gcbs_cli.reports.basis import RowFacts
        from gcbs_cli.reports.build import make_reports
        from gcbs_cli.settings.report import ReportSettings

        false = self.settings.false_negatives
        graph = GraphSettings(threshold=result.threshold.similarity) if result.threshold else self.settings.graph
        settings = ReportSettings.of(
            batch_sizes=[self.settings.batch_size],
            temperatures=[self.settings.temperature],
            graph=graph,
            seed=self.settings.seed,
            drop_last=self.settings.drop_last,
            device=self.settings.work.device,
            chunk_rows=self.settings.work.chunk_rows,
            max_memory=self.settings.work.max_memory,
            fn_margin=DEFAULT_MARGIN if false.fn_margin is None else false.fn_margin,
        )
        report = make_reports(pair.unit, result.perm, settings, watcher, facts=RowFacts(groups=groups))[0]
        pair.check_unchanged()
        write(self.report_path, report.model_dump_json(indent=2) + "\n")

    def _entry(
        self, pair: ReadPair, result: PlanResult, reading: float, groups: dict[str, str | None]
    ) -> ManifestEntry:
        settings, figures = self.settings, result.figures
        return ManifestEntry(
            tool_version=__version__,
            command=command_line(),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            inputs=InputsRecord(x=_input(pair.x), y=_input(pair.y)),
            rows=pair.x.rows,
            batch_size=settings.batch_size,
            temperature=settings.temperature,
            seed=settings.seed,
            quantile=_quantile(result),
            graph=_graph(figures, settings.graph),
            bandwidth=_by_order(figures, "bandwidth"),
            profile=_by_order(figures, "profile"),
            in_batch_edge_share=_by_order(figures, "in_batch_edge_share"),
            method=settings.method,
            method_settings=settings_record(result, self.text) | groups,
            device=result.device,
            timings={"read": reading, **result.seconds},
            permutation_hash=permutation_hash(result.perm),
            libraries=library_versions(),
            drop_last=settings.drop_last,
            normalize=self.inputs.normalize,
            world_size=settings.ranks.world_size,
            gather=settings.ranks.gather,
        )


def full_batches_per_rank(entry: ManifestEntry) -> dict[str, int]:
    """How many full batches each rank gets, where ranks were named and each takes whole batches."""
    if entry.world_size is None or entry.gather:
        return {}
    return {"full_batches_per_rank": entry.rows // entry.batch_size // entry.world_size}


def library_versions() -> dict[str, str]:
    """Those on which a permutation could depend; a library that was built in place may have no metadata."""
    found = {}
    for name in RECORDED_LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def settings_record(result: PlanResult, text: TextOptions) -> dict[str, Any]:
    """`method_settings` of the manifest, but for the file of groups."""
    settings = result.settings
    return {
        "max_edges": settings.work.max_edges,
        "chunk_rows": settings.work.chunk_rows,
        **{name: value for name, value in settings.bsc.values.items() if settings.method in BSC_METHODS[name]},
        **text.as_record(),
        **_quality(result),
    }


def _quality(result: PlanResult) -> dict[str, Any]:
    """What was asked beyond the method, and what the refinement did; nothing where nothing was asked."""
    settings, false, order = result.settings, result.settings.false_negatives, result.settings.batch_order
    record: dict[str, Any] = {}
    if result.refinement is not None:
        record["refinement"] = result.refinement.as_record() | {"time_limit": settings.time_limit}
    if false.active:
        record["false_negatives"] = false.values | {"suspected_inside": result.suspected_inside}
    if settings.no_duplicates:
        record["no_duplicates"] = True
    if order != BatchOrderSettings():
        record["batch_order"] = order.values
    return record


def _input(side: UnitRows) -> InputRecord:
    return InputRecord(
        paths=list(side.paths),
        name=side.name,
        rows=side.rows,
        dim=side.dim,
        dtype=side.dtype,
        fingerprint=side.fingerprint,
        column=side.column,
    )


def _quantile(result: PlanResult) -> QuantileRecord | None:
    if result.threshold is None or result.figures is None:
        return None
    found, graph = result.threshold, result.settings.graph
    return QuantileRecord(
        method="given" if found.requested is None else graph.quantile_method,
        requested=found.requested,
        per_row=graph.per_row,
        threshold=found.similarity,
        number=found.number,
        scale=found.scale,
        achieved=result.figures.achieved_quantile,
        interval=found.interval,
        sampled_rows=found.sampled or None,
        sampled_columns=found.sampled or None,
    )


def _graph(figures: GraphFigures | None, settings: GraphSettings) -> GraphRecord | None:
    if figures is None:
        return None
    return GraphRecord(
        edges=figures.edges,
        isolated=figures.isolated,
        max_degree=figures.max_degree,
        kind=settings.graph,
        top=settings.top if settings.graph == "top-m" else None,
        rank_window=settings.rank_window,
    )


def _by_order(figures: GraphFigures | None, name: str) -> dict[str, float | None]:
    if figures is None:
        return {}
    return {order: getattr(getattr(figures, order), name) for order in ("identity", "random", "plan")}
