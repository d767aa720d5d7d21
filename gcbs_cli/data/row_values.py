"""One value a row beside the embeddings: texts, ids or labels of a file, and the names of rows in the input itself."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from gcbs_cli.data.files import one_line, open_file, shown, stamp_file
from gcbs_cli.data.npy import read_vector
from gcbs_cli.data.source import EmbeddingSource, listed
from gcbs_cli.data.tables import TABLE_SUFFIXES, open_table
from gcbs_cli.system.arrays import Floats, Ints
from gcbs_cli.system.errors import BadInput, nearest

_LABELS = dict.fromkeys(("1", "true", "yes", "positive", "1.0"), 1.0) | dict.fromkeys(
    ("0", "false", "no", "negative", "0.0", "-1"), 0.0
)
_ROWS_AT_ONCE = 8192


def whole_characters(text: str) -> str:
    """The text with a question mark for half of a character, which JSON can hold and no file takes."""
    return text.encode(errors="replace").decode()


def text_of(value: Any) -> str:
    """Return the text of a row; null counts as an empty one."""
    return "" if value is None else str(value)


def ids_of(values: Iterable[Any]) -> Ints:
    """Return (N,) a number for each row: equal values, equal numbers, counted from 0 as they come."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(str(value), len(numbers)) for value in values], np.int64)


def labels_of(values: Iterable[Any], said: str, *, graded: bool = False) -> Floats:
    """Return (N,) the labels: 1 for 1, true, yes, positive, 0 for their opposites; if `graded`, any numbers.

    said: the option and the file, for messages. Raises BadInput for what is neither.
    """
    texts = [str(value).strip().lower() for value in values]
    labels = np.array([_number(text) if graded else _LABELS.get(text, np.nan) for text in texts], np.float64)
    for row in np.flatnonzero(~np.isfinite(labels)).tolist():
        expected = "a number" if graded else "1 or 0; for grades give --label-threshold"
        raise BadInput(f"{said}: row {row} is {shown(texts[row][:40])}, expected {expected}")
    return labels


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def read_row_values(path: str, option: str, column: str | None = None, rows: int | None = None) -> list[Any]:
    """Return the values of all rows as the file has them.

    rows: N, how many there have to be. Raises BadInput that names the option.
    """
    suffix, said = Path(path).suffix.lower(), f"{option} {shown(path)}"
    reader = READERS.get(suffix)
    if reader is None:
        raise BadInput(f"{said}: expected {', '.join(READERS)}")
    if column is not None and suffix not in WITH_COLUMNS:
        raise BadInput(f"{said}: found {suffix}, which has no columns, expected no {option}-column; leave it out")
    try:
        values = list(reader(path, column))
    except BadInput as error:
        raise BadInput(f"{option} {error}") from None
    except Exception as error:  # a damaged file has the parsers raise whatever they can
        raise BadInput(f"{said}: not a {suffix} file, or damaged: {one_line(error)}") from error
    if rows not in (None, len(values)):
        raise BadInput(f"{said}: found {len(values):,} rows, expected {rows:,}, one for each row of the embeddings")
    return values


def read_ids(
    source: EmbeddingSource, rows: Iterable[int], column: str | None = None, usual: str = "id"
) -> dict[int, str]:
    """Return the names of `rows` by row, or what else the column `usual` holds; none where the files have no such
    column and none was asked for by name.

    Reads the column alone. Raises BadInput where the column that was named is missing.
    """
    name, wanted = column or usual, set(rows)
    tables = any(stamp.path.lower().endswith(TABLE_SUFFIXES) for stamp in source.stamps)  # then all of them are
    if tables and all(name in _columns(stamp.path) for stamp in source.stamps):
        values = chain.from_iterable(_read_table(stamp.path, name) for stamp in source.stamps)
        return {row: text_of(value) for row, value in enumerate(values) if row in wanted}
    if column is not None:
        raise BadInput(f"{source.name}: found no column {shown(column)}, expected the one of --id-column; name another")
    return {}


def _columns(path: str) -> list[str]:
    with open_table(stamp_file(path)) as table:
        return list(table.schema.names)


def _choose(names: list[str], path: str, column: str | None) -> str:
    if column is not None and column in names:
        return column
    if column is None and len(names) == 1:
        return names[0]
    wanted = f"the column {shown(column)}" if column is not None else "one column, or its name"
    raise BadInput(f"{shown(path)}: found the columns {listed(names)}; expected {wanted}{nearest(column or '', names)}")


def _read_text(path: str, column: str | None) -> list[str]:
    with open_file(path) as file:
        return file.read().decode().splitlines()


def _read_npy(path: str, column: str | None) -> list[Any]:
    return read_vector(path, None, "texts or numbers; write it again").tolist()


def _read_table(path: str, column: str | None) -> Iterator[Any]:
    with open_table(stamp_file(path)) as table:
        name = _choose(table.schema.names, path, column)
        for values in table.column(name, _ROWS_AT_ONCE):
            yield from values.to_pylist()


def _read_jsonl(path: str, column: str | None) -> list[Any]:
    with open_file(path) as file:
        values = [json.loads(line) for line in file if line.strip()]
    if not values or not all(isinstance(value, dict) for value in values):
        return values
    name = _choose(list(values[0]), path, column)
    return [value.get(name) for value in values]


def _read_csv(path: str, column: str | None) -> list[str]:
    with open_file(path) as file:
        table = csv.DictReader(TextIOWrapper(file, "utf-8", newline=""))
        name = _choose(list(table.fieldnames or []), path, column)
        return [line[name] for line in table]


READERS: dict[str, Callable[[str, str | None], Iterable[Any]]] = {
    ".npy": _read_npy,
    ".parquet": _read_table,
    ".jsonl": _read_jsonl,
    ".csv": _read_csv,
    ".txt": _read_text,
}
WITH_COLUMNS = (".parquet", ".jsonl", ".csv")
