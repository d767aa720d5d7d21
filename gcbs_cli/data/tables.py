"""Reads columns of Parquet files batch by batch, in bounded memory, and validates every batch.

By pyarrow's reader of one file: the scanner of pyarrow.dataset would hold ten times as much.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gcbs_cli.data.files import FileStamp, label, one_line, open_unchanged
from gcbs_cli.data.source import ColumnChoice, EmbeddingSource, check_matrix
from gcbs_cli.system.arrays import Array
from gcbs_cli.system.errors import BadInput

_STREAM_BYTES = 1024 * 1024
"""How much of a column is read at a time; without it, a whole column of a row group is."""

_DECODER_SHARE = 8
"""Decoding holds six times a batch beside it, so a batch is an eighth of the block that was asked for."""

ROWS_AT_ONCE = 32
"""Rows of a batch of texts, of which neither the file nor the first ones tell how long they are."""

_ELEMENT_TYPES = {"halffloat": "float16", "float": "float32", "double": "float64"}


@contextmanager
def open_table(stamp: FileStamp) -> Iterator[Any]:
    """Give the open `pyarrow.parquet.ParquetFile`; whatever goes wrong within becomes a BadInput that names the file.

    Read, never mapped: a mapped file that becomes shorter would end the process. In nanoseconds, the old timestamps
    (INT96) of the year 9999 would wrap round.
    """
    import pyarrow.parquet as pq

    with open_unchanged(stamp) as file:
        try:
            yield pq.ParquetFile(file, buffer_size=_STREAM_BYTES, pre_buffer=False, coerce_int96_timestamp_unit="us")
        except BadInput:
            raise
        except Exception as error:  # damaged bytes have the library raise whatever it can
            raise BadInput(
                f"{stamp.shown}: cannot be read ({one_line(error)}), expected a whole Parquet file; write it again"
            ) from None


def read_batches(table: Any, rows: int, column: str | None = None) -> Iterator[Any]:
    """Yield record batches of at most so many rows, validated: offsets of a stranger's file may lie."""
    columns = None if column is None else [column]
    for group in range(table.num_row_groups):  # a batch of two would be of two dictionaries
        for batch in table.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False):
            batch.validate(full=True)
            yield batch


def read_column(table: Any, name: str, rows: int) -> Iterator[Any]:
    """Yield the arrays of a column, at most `rows` long."""
    for batch in read_batches(table, rows, name):
        yield batch.column(0)


def open_embedding_table(stamp: FileStamp, choice: ColumnChoice) -> EmbeddingSource:
    """Open the chosen column of a Parquet file; at most the first lists are read, for their length.

    Raises BadInput for a file that is damaged or encrypted, and where no column of lists of floats is chosen.
    """
    with open_table(stamp) as table:
        schema = table.schema_arrow
        elements = {field.name: _element_type(field.type) for field in schema}
        column = choice.choose(stamp, [name for name in schema.names if elements[name]])
        rows = table.metadata.num_rows
        lists = (row for part in read_column(table, column, ROWS_AT_ONCE) for row in part.to_pylist())
        dim = next((len(row) for row in lists if row), 0)
    name = label(stamp.name, column)
    if rows:  # an empty shard does not know its width
        check_matrix(name, (rows, dim))

    def blocks(rows_per_block: int) -> Iterator[Array]:
        with open_table(stamp) as table:
            for lists in read_column(table, column, max(1, rows_per_block // _DECODER_SHARE)):
                yield _matrix(lists, dim)

    return EmbeddingSource(name, rows, dim, str(elements[column]), blocks, column, (stamp,))


def _element_type(kind: Any) -> str | None:
    """Return the element type of a list of floats, None for any other type."""
    import pyarrow as pa

    if isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        return _ELEMENT_TYPES.get(str(kind.value_type))
    return None


def _matrix(lists: Any, dim: int) -> Array:
    """(n, dim) the numbers of the lists, without a copy; NaN for a null and in a list that has not `dim` numbers."""
    import pyarrow as pa

    if isinstance(lists, pa.FixedSizeListArray):
        offsets = lists.type.list_size * np.arange(lists.offset, lists.offset + len(lists) + 1)
    else:
        offsets = np.from_dlpack(lists.offsets)
    # `flatten` would leave out the lists that are null, and import pyarrow.compute, which is slow.
    values = lists.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    if not (lists.null_count or values.null_count or (np.diff(offsets) != dim).any()):
        return np.from_dlpack(values).reshape(-1, dim)
    missing = [np.nan] * dim
    rows = [row if row is not None and len(row) == dim else missing for row in lists.to_pylist()]
    return np.array(rows, _ELEMENT_TYPES[str(lists.type.value_type)])
