"""Mined negatives as .parquet, .jsonl or .csv: the columns query, negative, score and rank."""

import json
import sys
from collections.abc import Iterator
from functools import partial
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
        sys.stdout.writelines(map(_as_json, _lines(negatives)))
    else:
        write(output, partial(WRITERS[Path(output).suffix.lower()], negatives))


def _write_parquet(negatives: Negatives, file: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({name: getattr(negatives, name) for name in COLUMNS}), file, use_dictionary=False)


def _write_jsonl(negatives: Negatives, file: BinaryIO) -> None:
    file.writelines(_as_json(line).encode() for line in _lines(negatives))


def _write_csv(negatives: Negatives, file: BinaryIO) -> None:
    file.write((",".join(COLUMNS) + "\n").encode())
    file.writelines((",".join(map(repr, line)) + "\n").encode() for line in _lines(negatives))


def _as_json(line: tuple[int | float, ...]) -> str:
    return json.dumps(dict(zip(COLUMNS, line, strict=True))) + "\n"


def _lines(negatives: Negatives) -> Iterator[tuple[int | float, ...]]:
    """Plain numbers; a float is written with the digits that give it back."""
    for start in range(0, len(negatives.query), LINES_AT_ONCE):
        part = slice(start, start + LINES_AT_ONCE)
        yield from zip(*(getattr(negatives, name)[part].tolist() for name in COLUMNS), strict=True)


WRITERS = {".parquet": _write_parquet, ".jsonl": _write_jsonl, ".csv": _write_csv}
