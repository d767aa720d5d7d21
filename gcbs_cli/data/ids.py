"""The names of rows, where the input has a column for them."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from gcbs_cli.data.files import shown
from gcbs_cli.data.parquet import TABLE_SUFFIXES, open_table
from gcbs_cli.data.source import EmbeddingSource
from gcbs_cli.system.errors import BadInput

USUAL_COLUMN: Final = "id"
"""The column that is read when none is named."""

_LONGEST: Final = 200
"""Characters of a name that are kept."""

_ROWS_AT_ONCE: Final = 8192


def read_ids(source: EmbeddingSource, rows: Iterable[int], column: str | None = None) -> dict[int, str]:
    """The names of `rows` by row; empty where the files have no such column and none was asked for by name.

    Reads the column alone. Raises BadInput where the column that was named is missing.
    """
    wanted = sorted(set(rows))
    names: dict[int, str] = {}
    start = 0
    for stamp in source.stamps if source.column is not None else ():
        if not stamp.path.lower().endswith(TABLE_SUFFIXES):
            break
        with open_table(stamp) as file:
            if (column or USUAL_COLUMN) not in file.schema_arrow.names:
                break
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=[column or USUAL_COLUMN]):
                values, stop = batch.column(0), start + batch.num_rows
                for row in wanted[bisect_left(wanted, start) : bisect_left(wanted, stop)]:
                    value = values[row - start].as_py()
                    names[row] = "" if value is None else str(value)[:_LONGEST]
                start = stop
    if start == source.rows:
        return names
    if column is not None:
        raise BadInput(f"{source.name}: found no column {shown(column)}, expected the one of --id-column; name another")
    return {}
