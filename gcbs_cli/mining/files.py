"""Mined negatives as .parquet, .jsonl or .csv: the columns query, negative, score and rank."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from gcbs_cli.mining.negatives import COLUMNS, Negatives
from gcbs_cli.plan_file.writing import write
from gcbs_cli.system.errors import BadInput

LINES_AT_ONCE = 1 << 16


def check_suffix(output: str) -> None:
    """Raises BadInput unless the suffix says which format; `-` is JSON lines on stdout."""
    if output != "-" and Path(output).suffix.lower() not in WRITERS:
        raise BadInput(f"--output {output}: expected {', '.join(WRITERS)}, or - for JSON lines on stdout")


def write_negatives(output: str, negatives: Negatives) -> None:
    """Write the lists whole or not at all; `-` writes JSON lines to stdout.

    Raises GcbsError when the disk does not take them.
    """
    if output == "-":
        for text in _json_lines(negatives):
            sys.stdout.write(text)
        return
    fill = WRITERS[Path(output).suffix.lower()]
    write(output, lambda file: fill(file, negatives))


def _write_parquet(file: BinaryIO, negatives: Negatives) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({name: getattr(negatives, name) for name in COLUMNS}), file, use_dictionary=False)


def _write_jsonl(file: BinaryIO, negatives: Negatives) -> None:
    for text in _json_lines(negatives):
        file.write(text.encode())


def _write_csv(file: BinaryIO, negatives: Negatives) -> None:
    file.write((",".join(COLUMNS) + "\n").encode())
    for line in _lines(negatives):
        file.write((",".join(map(repr, line)) + "\n").encode())


def _json_lines(negatives: Negatives) -> Iterator[str]:
    for line in _lines(negatives):
        yield json.dumps(dict(zip(COLUMNS, line, strict=True))) + "\n"


def _lines(negatives: Negatives) -> Iterator[tuple[int | float, ...]]:
    """Plain numbers; a float is written with the digits that give it back."""
    for start in range(0, len(negatives.query), LINES_AT_ONCE):
        part = slice(start, start + LINES_AT_ONCE)
        yield from zip(*(getattr(negatives, name)[part].tolist() for name in COLUMNS), strict=True)


WRITERS: dict[str, Callable[[BinaryIO, Negatives], None]] = {
    ".parquet": _write_parquet,
    ".jsonl": _write_jsonl,
    ".csv": _write_csv,
}
