"""What `gcbs mine` does once its options are parsed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gcbs_cli.cli.inputs import InputOptions, read_pair
from gcbs_cli.cli.output import Mode, Output
from gcbs_cli.cli.watching import watcher_for
from gcbs_cli.data.positives import Positives
from gcbs_cli.data.row_values import check_row_count, read_row_ids
from gcbs_cli.mining.files import check_suffix, write_negatives
from gcbs_cli.mining.run import mine
from gcbs_cli.mining.schema import MineReport
from gcbs_cli.plan_file.writing import check_outputs
from gcbs_cli.settings.mine import MineSettings
from gcbs_cli.system.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class MineCommand:
    """One call of `gcbs mine`."""

    inputs: InputOptions
    settings: MineSettings
    output: str
    positives: str | None
    positives_column: str | None
    mode: Mode
    force: bool

    def run(self) -> None:
        """Check, read, mine, write, show. Raises GcbsError before anything is written where something does not fit."""
        out = Output(self.mode, results_to_stderr=self.output == "-")
        if self.output == "-" and self.mode.is_json:
            raise BadInput("--json with -o -: stdout carries the negatives; write them to a file, or leave out --json")
        check_suffix(self.output)
        check_outputs([self.output], [self.inputs.x, self.inputs.y, self.positives], force=self.force)
        sources = self.inputs.open()
        self.settings.check_rows(sources[0].rows)
        positives = self._positives(sources[0].rows)
        pair = read_pair(sources, self.inputs, out)
        with watcher_for(out) as watcher:
            mined = mine(pair.unit, self.settings, positives, watcher)
        write_negatives(self.output, mined.negatives)
        out.table(mine_table(mined.report, self.output))
        out.result({"output": self.output, **mined.report.model_dump(mode="json")})
        if mined.report.short:
            out.warning(
                f"{mined.report.short:,} rows have fewer than {self.settings.choice.negatives} negatives; a larger "
                "--range-max or a smaller margin leaves more candidates"
            )

    def _positives(self, rows: int) -> Positives | None:
        if self.positives is None:
            return None
        ids = read_row_ids(self.positives, "--positives", self.positives_column)
        check_row_count(len(ids), rows, self.positives, "--positives")
        return Positives(ids)


def mine_table(report: MineReport, output: str) -> "RenderableType":
    """What was found and what the loss is with it, one line a figure."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("figure", style="bold", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("what it says", overflow="fold")
    for line in _lines(report, output):
        table.add_row(*line)
    return table


def _lines(report: MineReport, output: str) -> list[tuple[str, str, str]]:
    loss, gap, scores, asked = report.loss, report.gap, report.scores, report.settings["negatives"]
    size = report.settings["batch_size"]
    lines = [
        ("negatives", f"{report.mined:,}", f"for {report.n:,} rows; {report.short:,} have fewer than {asked}"),
        ("positive", f"{scores.positive:.4f}", "mean similarity of the positive pairs"),
    ]
    if scores.negative is not None:
        lines.append(("negative", f"{scores.negative:.4f}", "mean similarity of the mined negatives"))
    for reason, count in report.skipped.items():
        lines.append((f"refused by {reason}", f"{count:,}", "candidates"))
    return [
        *lines,
        ("L_global", f"{loss.global_:.4f}", "the loss x→y if every row saw all other rows, in nats"),
        ("random", f"{loss.random:.4f}", f"in random batches of {size}"),
        ("own negatives", f"{loss.own:.4f}", f"and its own {asked} for each row: {_closed(gap.own_reduction)}"),
        ("shared negatives", f"{loss.shared:.4f}", f"and those of its batch: {_closed(gap.shared_reduction)}"),
        ("written", "stdout" if output == "-" else output, ""),
    ]


def _closed(reduction: float | None) -> str:
    return "no gap to close" if reduction is None else f"{reduction:.1%} of the gap closed"
