"""What `gcbs plan --partitions` does once its options are parsed."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gcbs_cli import __version__
from gcbs_cli.cli.inputs import command_line, show_order
from gcbs_cli.cli.output import Output
from gcbs_cli.cli.partition_tables import partitioned_table
from gcbs_cli.cli.planning import PlanCommand, full_batches_per_rank, library_versions, settings_record
from gcbs_cli.cli.watching import watcher_for
from gcbs_cli.data import EmbeddingSource
from gcbs_cli.data.reading import PairStream
from gcbs_cli.plan_file.manifest import InputRecord, InputsRecord, ManifestEntry, QuantileRecord, permutation_hash
from gcbs_cli.plan_file.save import save_plan
from gcbs_cli.planning.engines import engine_of
from gcbs_cli.planning.parts.kept import clear
from gcbs_cli.planning.parts.plan import plan_in_parts
from gcbs_cli.planning.plan import PlanResult
from gcbs_cli.system.errors import BadInput


@dataclass(frozen=True)
class PartitionedCommand:
    """One call of `gcbs plan --partitions`; `command`: what the other options ask for."""

    command: PlanCommand

    def run(self, *, dry_run: bool = False) -> None:
        """Check, plan part by part, save, show. Raises GcbsError before anything is written where something is off."""
        command = self.command
        if dry_run:
            raise BadInput("--dry-run: forecasts one graph; leave out --partitions, or plan one part's rows alone")
        engine = engine_of(command.settings.work)
        out = Output(command.mode, results_to_stderr=command.output == "-")
        self._check()
        sources = command.inputs.open()
        command.settings.check_rows(sources[0].rows)
        for source in sources:
            show_order(source, out)
        stream = PairStream(*sources, normalize=command.inputs.normalize)
        inputs = command.text.read(stream.rows)
        groups = command.groups.read(stream.rows)
        with watcher_for(out) as watcher:
            plan = plan_in_parts(
                stream,
                command.settings,
                watcher,
                groups=groups,
                inputs=inputs,
                beside=None if command.output == "-" else Path(command.output),
                engine=engine,
                work_dir=command.work_dir,
            )
            stream.check_unchanged()
            entry = self._entry(stream, plan, command.groups.as_record(groups))
            save_plan(command.output, plan.perm, entry)
            if command.work_dir is not None:
                clear(command.work_dir)
        out.table(partitioned_table(entry, command.output, time.perf_counter() - command.began))
        record = {"output": command.output, **entry.model_dump(mode="json")}
        out.result({**record, **full_batches_per_rank(entry)})

    def _check(self) -> None:
        command = self.command
        if command.output == "-" and command.mode.is_json:
            raise BadInput("--json with -o -: stdout carries the permutation; write it to a file, or leave out --json")
        if command.report_path is not None:
            raise BadInput("--report: reads all pairs at once; with --partitions run  gcbs report --rows  afterwards")
        command.check_outputs()
        command.text.check([command.settings.method])

    def _entry(self, stream: PairStream, plan: PlanResult, groups: dict[str, str | None]) -> ManifestEntry:
        command, settings = self.command, self.command.settings
        x, y = (_input(side, print_) for side, print_ in zip((stream.x, stream.y), stream.fingerprints, strict=True))
        uses_graph = plan.partitions is not None and plan.partitions.thresholds is not None
        quantile = QuantileRecord(
            method="each part's own",
            requested=settings.graph.requested_quantile(stream.rows),
            per_row=settings.graph.per_row,
            threshold=settings.graph.threshold,
        )
        return ManifestEntry(
            tool_version=__version__,
            command=command_line(),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            inputs=InputsRecord(x=x, y=y),
            rows=stream.rows,
            batch_size=settings.batch_size,
            temperature=settings.temperature,
            seed=settings.seed,
            quantile=quantile if uses_graph else None,
            method=settings.method,
            method_settings=settings_record(plan, command.text) | groups,
            partitions=plan.partitions,
            device=plan.device,
            timings=plan.seconds,
            permutation_hash=permutation_hash(plan.perm),
            libraries=library_versions(),
            drop_last=settings.drop_last,
            normalize=stream.normalize,
            world_size=settings.ranks.world_size,
            gather=settings.ranks.gather,
        )


def _input(side: EmbeddingSource, fingerprint: str) -> InputRecord:
    return InputRecord(
        paths=list(side.paths),
        name=side.name,
        rows=side.rows,
        dim=side.dim,
        dtype=side.dtype,
        fingerprint=fingerprint,
        column=side.column,
    )
