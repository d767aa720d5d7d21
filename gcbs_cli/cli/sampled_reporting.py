"""What `gcbs report --rows` does once its options are parsed."""

from dataclasses import dataclass
from pathlib import Path

from gcbs_cli.cli.inputs import show_order
from gcbs_cli.cli.output import Output
from gcbs_cli.cli.reporting import ReportCommand
from gcbs_cli.cli.tables import report_tables
from gcbs_cli.cli.watching import watcher_for
from gcbs_cli.data.reading import PairStream
from gcbs_cli.plan_file.manifest import entry_for, planned_inputs, read_manifest
from gcbs_cli.plan_file.permutation import read_permutation
from gcbs_cli.plan_file.writing import check_outputs, write
from gcbs_cli.reports.sampled import SIDES_OF_LOSS, SampleSettings, sampled_report
from gcbs_cli.settings.plan import DEFAULT_BATCH_SIZE, DEFAULT_TEMPERATURE
from gcbs_cli.system.errors import BadInput


@dataclass(frozen=True)
class SampledCommand:
    """One call of `gcbs report --rows`; `command`: what the other options ask for."""

    command: ReportCommand
    rows: int

    def run(self) -> None:
        """Check, read, report, write, show. Raises BadInput for what a sample cannot say."""
        command = self.command
        out = Output(command.mode)
        self._check()
        manifest = None if command.perm == "-" else read_manifest(Path(str(command.perm)))
        sources = command.inputs.open(planned_inputs(manifest))
        perm = read_permutation(str(command.perm), sources[0].rows)
        entry = None if manifest is None else entry_for(manifest, perm)
        asked = command.asked
        settings = SampleSettings(
            rows=self.rows,
            batch_size=(asked.batch_sizes or [entry.batch_size if entry else DEFAULT_BATCH_SIZE])[0],
            temperature=(asked.temperatures or [(entry and entry.temperature) or DEFAULT_TEMPERATURE])[0],
            loss=command.losses[0].kind.value,
            seed=command.seed,
            device=command.device,
        )
        settings.check(sources[0].rows)
        for source in sources:
            show_order(source, out)
        stream = PairStream(*sources, normalize=command.inputs.normalize)
        with watcher_for(out) as watcher:
            report = sampled_report(stream, perm, settings, watcher)
        stream.check_unchanged()
        if entry is not None and (entry.inputs.x.fingerprint, entry.inputs.y.fingerprint) != stream.fingerprints:
            out.warning(f"{command.perm} was planned from other data ({entry.inputs.x.name}, {entry.inputs.y.name})")
        if command.output is not None:
            write(command.output, report.model_dump_json(indent=2) + "\n")
        out.table(report_tables([report]))
        out.result(report.model_dump(mode="json"))

    def _check(self) -> None:
        command = self.command
        check_outputs([command.output], command.files_read(), force=command.force)
        if command.perm is None:
            raise BadInput("--rows: draws batches of a plan; name the plan with -p")
        several = any(len(given or []) > 1 for given in (command.asked.batch_sizes, command.asked.temperatures))
        if several or len(command.losses) > 1:
            raise BadInput("--rows: one loss, batch size and temperature at a time")
        loss = command.losses[0]
        if loss.kind.value not in SIDES_OF_LOSS or loss.queue_batches:
            raise BadInput(f"--rows: goes with --loss infonce and symmetric, without a queue; found {loss.name}")
        whole = {
            "--html": command.html is not None,
            "--groups": command.groups.given,
        }
        for option, given in whole.items():
            if given:
                raise BadInput(f"{option}: needs all pairs and does not go with --rows; leave one of them out")
