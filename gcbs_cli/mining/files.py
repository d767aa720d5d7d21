"""Mined negatives as .parquet, .jsonl or .csv: the columns query, negative, score and rank, and texts where known."""

import codecs
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from gcbs_cli.mining.negatives import COLUMNS, Negatives
from gcbs_cli.plan_file.writing import write
from gcbs_cli.system.errors import BadInput

Columns = dict[str, Any]
LINES_AT_ONCE = 1 << 16


def check_suffix(output: str) -> None:
    """Raises BadInput unless the suffix says which format; `-` is JSON lines on stdout."""
    if output != "-" and Path(output).suffix.lower() not in WRITERS:
        raise BadInput(f"--output {output}: expected {', '.join(WRITERS)}, or - for JSON lines on stdout")


def write_negatives(output: str, negatives: Negatives, texts: Mapping[int, Sequence[str]]) -> None:
    """Write the lists whole or not at all; `-` writes JSON lines to stdout. texts: of both sides of each row, or none.

    Raises GcbsError when the disk does not take them.
    """
    columns: Columns = {name: getattr(negatives, name) for name in COLUMNS}
    if texts:
        columns["query_text"] = [texts[row][0] for row in negatives.query.tolist()]
        columns["positive_text"] = [texts[row][1] for row in negatives.query.tolist()]
        columns["negative_text"] = [texts[row][1] for row in negatives.negative.tolist()]
    if output == "-":
        sys.stdout.writelines(_json_lines(columns))
    else:
        write(output, partial(WRITERS[Path(output).suffix.lower()], columns))


def _write_parquet(columns: Columns, file: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), file, use_dictionary=False)


def _write_jsonl(columns: Columns, file: BinaryIO) -> None:
    file.writelines(line.encode() for line in _json_lines(columns))


def _write_csv(columns: Columns, file: BinaryIO) -> None:
    import csv

    lines = csv.writer(codecs.getwriter("utf-8")(file), lineterminator="\n")
    lines.writerow(columns)
    lines.writerows(_lines(columns))


def _json_lines(columns: Columns) -> Iterator[str]:
    return (json.dumps(dict(zip(columns, line, strict=True))) + "\n" for line in _lines(columns))


def _lines(columns: Columns) -> Iterator[tuple[Any, ...]]:
    """Plain numbers and texts; a float is written with the digits that give it back."""
    for start in range(0, len(columns["query"]), LINES_AT_ONCE):
        parts = (column[start : start + LINES_AT_ONCE] for column in columns.values())
        yield from zip(*(part if isinstance(part, list) else part.tolist() for part in parts), strict=True)


WRITERS = {".parquet": _write_parquet, ".jsonl": _write_jsonl, ".csv": _write_csv}
