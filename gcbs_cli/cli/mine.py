"""`gcbs mine`: hard negatives for each row, as .parquet, .jsonl or .csv."""

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow.csv import write_csv
from pyarrow.parquet import write_table

from gcbs_cli.cli.inputs import files_read, open_inputs, read_ids, texts_of_rows
from gcbs_cli.cli.output import Output, text_table
from gcbs_cli.mining.negatives import COLUMNS, Negatives
from gcbs_cli.mining.run import MineReport
from gcbs_cli.mining.run import mine as mine_pairs
from gcbs_cli.plan_file import writing
from gcbs_cli.plan_file.writing import check_outputs
from gcbs_cli.settings.mine import MineSettings
from gcbs_cli.settings.others import Mine
from gcbs_cli.system.errors import BadInput

LINES_AT_ONCE = 1 << 16


def mine(settings: Mine) -> None:
    """Mine, and write the negatives."""
    output = settings.output
    out = Output(settings, output)
    mine_settings = settings.only(MineSettings)
    if output != "-" and Path(output).suffix.lower() not in WRITERS:
        raise BadInput(f"--output {output}: expected {', '.join(WRITERS)}, or - for JSON lines on stdout")
    check_outputs([] if output == "-" else [output], files_read(settings), force=settings.force)
    stream = open_inputs(settings, out)
    mine_settings.check_rows(stream.rows)
    ids = read_ids(settings, "positives", stream.rows)
    texts = texts_of_rows(settings, stream, range(stream.rows))
    pairs = stream.read()
    with out:
        mined = mine_pairs(pairs, mine_settings, ids, out)
    _write(output, mined.negatives, texts, force=settings.force)
    out.table(text_table(_figures(mined.report, output)))
    out.result({"output": output, **mined.report.model_dump(mode="json")})
    if mined.report.short:
        out.warn(
            f"{mined.report.short:,} rows have fewer than {settings.negatives} negatives; a larger "
            "--range-max or a smaller margin leaves more candidates"
        )


def _figures(report: MineReport, output: str) -> list[tuple[str, str]]:
    """The negatives in figures, and what the loss is with them."""
    loss, gap, scores = report.loss, report.gap, report.scores
    number, size = report.settings["negatives"], report.settings["batch_size"]
    negative = "" if scores.negative is None else f", of the negatives {scores.negative:.4f}"
    refused = ", ".join(f"{count:,} for {reason}" for reason, count in report.skipped.items())
    return [
        ("negatives", f"{report.mined:,} for {report.n:,} rows; {report.short:,} have fewer than {number}"),
        ("similarity", f"of the positives {scores.positive:.4f}{negative}, on average"),
        ("refused", refused or "no candidate"),
        ("L_global", f"{loss.global_:.4f}, the loss x→y if every row saw all other rows, in nats"),
        ("random", f"{loss.random:.4f} in random batches of {size}"),
        ("own negatives", f"{loss.own:.4f} with each row's own {number}: {_closed(gap.own_reduction)}"),
        ("shared", f"{loss.shared:.4f} with those of its batch, too: {_closed(gap.shared_reduction)}"),
        ("written", output),
    ]


def _closed(reduction: float | None) -> str:
    return "no gap to close" if reduction is None else f"{reduction:.1%} of the gap closed"


def _write(output: str, negatives: Negatives, texts: Mapping[int, Sequence[str]], *, force: bool) -> None:
    """Write the lists whole or not at all; `-` writes JSON lines to stdout. texts: of both sides of each row, or none.

    Raises GcbsError when the disk does not take them.
    """
    columns: dict[str, Any] = {name: getattr(negatives, name) for name in COLUMNS}
    if texts:
        query, negative = negatives.query.tolist(), negatives.negative.tolist()
        for name, rows, side in (("query", query, 0), ("positive", query, 1), ("negative", negative, 1)):
            columns[f"{name}_text"] = [texts[row][side] for row in rows]
    table = pa.table(columns)
    if output == "-":
        _write_jsonl(table, sys.stdout.buffer)
    else:
        with writing.file(Path(output), force=force) as whole:
            WRITERS[Path(output).suffix.lower()](table, whole)


def _write_jsonl(table: pa.Table, file: BinaryIO) -> None:
    """Plain numbers and texts; a float is written with the digits that give it back."""
    for lines in table.to_batches(LINES_AT_ONCE):
        file.writelines(f"{json.dumps(line)}\n".encode() for line in lines.to_pylist())


WRITERS = {".parquet": partial(write_table, use_dictionary=False), ".jsonl": _write_jsonl, ".csv": write_csv}
