"""`gcbs mine`: hard negatives for each row."""

from typing import TYPE_CHECKING

from gcbs_cli.cli.inputs import open_inputs, read_ids, texts_of_rows
from gcbs_cli.cli.output import Output, show_progress, text_table
from gcbs_cli.data.pairs import Positives
from gcbs_cli.mining.files import check_suffix, write_negatives
from gcbs_cli.mining.run import MineReport
from gcbs_cli.mining.run import mine as mine_pair
from gcbs_cli.plan_file.writing import check_outputs
from gcbs_cli.settings.mine import MineSettings
from gcbs_cli.settings.others import Mine

if TYPE_CHECKING:
    from rich.table import Table


def mine(settings: Mine) -> None:
    """Mine, and write the negatives."""
    output, asked = settings.output, settings.only(MineSettings)
    out = Output(settings, output)
    check_suffix(output)
    check_outputs([output], [settings.x, settings.y, settings.positives, settings.texts], force=settings.force)
    stream = open_inputs(settings, out)
    asked.check_rows(stream.rows)
    ids = read_ids(settings, "positives", stream.rows)
    texts = texts_of_rows(settings, stream, range(stream.rows))
    pair = stream.read()
    with show_progress(out) as progress:
        mined = mine_pair(pair, asked, None if ids is None else Positives(ids), progress)
    stream.check_unchanged()
    write_negatives(output, mined.negatives, texts)
    out.table(mine_table(mined.report, output))
    out.result({"output": output, **mined.report.model_dump(mode="json")})
    if mined.report.short:
        out.warning(
            f"{mined.report.short:,} rows have fewer than {settings.negatives} negatives; a larger "
            "--range-max or a smaller margin leaves more candidates"
        )


def mine_table(report: MineReport, output: str) -> "Table":
    """What was found and what the loss is with it, one line a figure."""
    loss, gap, scores, asked = report.loss, report.gap, report.scores, report.settings["negatives"]
    lines = [
        ("negatives", f"{report.mined:,}", f"for {report.n:,} rows; {report.short:,} have fewer than {asked}"),
        ("positive", f"{scores.positive:.4f}", "mean similarity of the positive pairs"),
    ]
    if scores.negative is not None:
        lines.append(("negative", f"{scores.negative:.4f}", "mean similarity of the mined negatives"))
    lines += [(f"refused by {reason}", f"{count:,}", "candidates") for reason, count in report.skipped.items()]
    lines += [
        ("L_global", f"{loss.global_:.4f}", "the loss x→y if every row saw all other rows, in nats"),
        ("random", f"{loss.random:.4f}", f"in random batches of {report.settings['batch_size']}"),
        ("own negatives", f"{loss.own:.4f}", f"and its own {asked} for each row: {_closed(gap.own_reduction)}"),
        ("shared negatives", f"{loss.shared:.4f}", f"and those of its batch: {_closed(gap.shared_reduction)}"),
        ("written", "stdout" if output == "-" else output, ""),
    ]
    return text_table(lines, ["figure", "value", "what it says"], "lrf")


def _closed(reduction: float | None) -> str:
    return "no gap to close" if reduction is None else f"{reduction:.1%} of the gap closed"
