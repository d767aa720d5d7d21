"""One value a row beside the embeddings: texts, ids or labels of a file, and the names of rows in the input itself."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from io import TextIOWrapper
from itertools import chain, islice
from typing import Any

import numpy as np

from gcbs_cli.data.files import FileStamp, one_line, open_unchanged, shown, stamp_file, suffix_of
from gcbs_cli.data.npy import read_vector
from gcbs_cli.data.source import EmbeddingSource, choose_column
from gcbs_cli.data.tables import ROWS_AT_ONCE, open_table, read_column
from gcbs_cli.system.arrays import Floats, Ints
from gcbs_cli.system.errors import BadInput

TEXT_COLUMNS = ("x_text", "y_text")
"""The texts beside the embeddings in a table that gcbs embed writes."""

_WORDS = {"true": "1", "false": "0"}
"""Labels as JSON and Parquet have them."""

_NO_ID = ("", "none", "null", "nan", "-1", "-1.0")
"""What files hold, in any case, where a row has no id."""


def text_of(value: Any) -> str:
    """Return the text of a row: none for null, a ? for half of a character, which JSON can hold and no file takes."""
    return "" if value is None else str(value).encode(errors="replace").decode()


def ids_of(values: Iterable[Any]) -> Ints:
    """Return (N,) a number for each row: equal values, equal numbers, counted from 0 as they come.

    A row without an id (null, NaN, an empty text, −1) has a number of its own.
    """
    texts = map(str, values)
    keys = [row if text.strip().lower() in _NO_ID else text for row, text in enumerate(texts)]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], np.int64)


def labels_of(values: Iterable[Any], source: str, *, graded: bool = False) -> Floats:
    """Return (N,) the labels: 1 for 1 and true, 0 for 0, −1 and false; if `graded`, any numbers.

    source: the option and the file, for messages. Raises BadInput for what is neither.
    """
    labels = []
    for row, value in enumerate(values):
        text = str(value).strip().lower()
        try:
            label = float(_WORDS.get(text, text))
        except ValueError:
            label = np.nan
        if not np.isfinite(label) or not (graded or label in (1, 0, -1)):
            expected = "a number" if graded else "1 or 0; for grades give --label-threshold"
            raise BadInput(f"{source}: row {row} is {shown(text[:40])}, expected {expected}")
        labels.append(label if graded else max(label, 0))
    return np.array(labels, np.float64)


def read_row_values(path: str, option: str, column: str | None = None, rows: int | None = None) -> list[Any]:
    """Return the values of all rows as the file has them.

    rows: N, how many there have to be. Raises BadInput that names the option.
    """
    suffix = suffix_of(path)
    suffixes = tuple(READERS) if column is None else WITH_COLUMNS
    most = None if rows is None else rows + 1  # a small file may unfold to far more rows than there can be
    try:
        stamp = stamp_file(path)
        if suffix not in suffixes:
            raise BadInput(f"{stamp.shown}: found {shown(suffix)}, expected {', '.join(suffixes)}; convert it")
        values = list(islice(READERS[suffix](stamp, column), most))
    except BadInput as error:
        raise BadInput(f"{option} {error}") from None
    except Exception as error:  # a damaged file has the parsers raise whatever they can
        raise BadInput(f"{option} {shown(path)}: not a {suffix} file, or damaged: {one_line(error)}") from error
    if rows not in (None, len(values)):
        raise BadInput(
            f"{option} {shown(path)}: read {len(values):,} rows, expected {rows:,}, one for each row of the embeddings"
        )
    return values


def read_texts(path: str, column: str, option: str) -> list[str]:
    """Return a text column of a .parquet, .csv or .jsonl file.

    Raises BadInput that names the option, also for empty, missing or too few texts.
    """
    values = read_row_values(path, option, column)
    for row, value in enumerate(values):
        if not isinstance(value, str) or not value.strip():
            raise BadInput(f"{shown(path)}:{shown(column)}: row {row} has no text; drop pairs without one")
    if len(values) < 2:
        raise BadInput(f"{shown(path)}: found {len(values)} rows, expected at least 2")
    return list(map(text_of, values))


def read_ids(
    source: EmbeddingSource, rows: Iterable[int], column: str | None = None, usual: str = "id"
) -> dict[int, str]:
    """Return the names of `rows` by row, or what else the column `usual` holds; none where the files have no such
    column and none was asked for by name.

    Reads the column alone. Raises BadInput where the column that was named is missing.
    """
    chosen = set(rows)
    try:
        values = chain.from_iterable(_read_table(stamp, column or usual) for stamp in source.stamps)
        return {row: text_of(value) for row, value in enumerate(values) if row in chosen}
    except BadInput as error:
        if column is None:  # the files are not tables, or have no such column
            return {}
        raise BadInput(f"--id-column {error}") from None


def _choose(names: list[str], stamp: FileStamp, column: str | None) -> str:
    likely = names if len(names) == 1 else []
    advice = "; expected one column, or its name" if column is None else f"; expected the column {shown(column)}"
    return choose_column(stamp, names, column, likely, advice)


def _lines(stamp: FileStamp) -> Iterator[str]:
    r"""Yield the lines of a text, each with its end, which is \n alone."""
    with open_unchanged(stamp) as file:
        lines = TextIOWrapper(file, "utf-8-sig", newline="\n")  # -sig: an editor's mark at the start is no letter
        for line in lines:
            if "\0" in line:
                raise ValueError("found a NUL, expected text in UTF-8")
            yield line


def _read_text(stamp: FileStamp, column: str | None) -> Iterator[str]:
    for line in _lines(stamp):
        yield line.removesuffix("\n").removesuffix("\r")


def _read_npy(stamp: FileStamp, column: str | None) -> Iterator[Any]:
    return iter(read_vector(stamp.path).tolist())


def _read_table(stamp: FileStamp, column: str | None) -> Iterator[Any]:
    with open_table(stamp) as table:
        name = _choose(table.schema_arrow.names, stamp, column)
        for values in read_column(table, name, ROWS_AT_ONCE):
            yield from values.to_pylist()


def _read_jsonl(stamp: FileStamp, column: str | None) -> Iterator[Any]:
    """Yield the values of objects, or values that stand by themselves; pyarrow.json takes dates for times."""
    for number, line in enumerate(filter(str.strip, _lines(stamp))):
        value = json.loads(line)
        if number == 0 and isinstance(value, dict):
            column = _choose(list(value), stamp, column)
        if column is not None and not isinstance(value, dict):
            raise ValueError(f"value {number + 1} is no object")
        yield value if column is None else value.get(column)


def _read_csv(stamp: FileStamp, column: str | None) -> Iterator[str]:
    """Yield the values of a column; pyarrow.csv would take rows after a quote that is left open for one value."""
    csv.field_size_limit(sys.maxsize)  # texts may be long
    lines = csv.reader(_lines(stamp), strict=True)
    names = next(lines, [])
    name = _choose(names, stamp, column)
    place = names.index(name)
    for line in lines:
        values = line or [""] * (len(names) == 1)  # an empty line is an empty value where there is but one column
        if values and len(values) != len(names):
            raise ValueError(f"line {lines.line_num} has {len(values)} values, expected {len(names)}")
        if values:
            yield values[place]


READERS: dict[str, Callable[[FileStamp, str | None], Iterator[Any]]] = {
    ".npy": _read_npy,
    ".parquet": _read_table,
    ".jsonl": _read_jsonl,
    ".csv": _read_csv,
    ".txt": _read_text,
}
WITH_COLUMNS = (".parquet", ".jsonl", ".csv")
