"""Reads columns of Parquet and Arrow files batch by batch, in bounded memory, and validates every batch.

By pyarrow's readers of one file: the scanner of pyarrow.dataset would hold ten times as much, and takes no streams.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gcbs_cli.data.files import FileStamp, label, one_line, open_unchanged
from gcbs_cli.data.source import ColumnChoice, EmbeddingSource, check_matrix
from gcbs_cli.system.arrays import Array
from gcbs_cli.system.errors import BadInput

TABLE_SUFFIXES = (".parquet", ".arrow", ".feather")
"""The formats that have columns and are read here."""

_STREAM_BYTES = 1024 * 1024
"""How much of a column is read at a time; without it, a whole column of a row group is."""

_DECODER_SHARE = 8
"""Decoding holds six times a batch beside it, so a batch is an eighth of the block that was asked for."""

_PROBED_ROWS = 16
"""Rows of a batch when only the width of the lists is looked for."""

_ELEMENT_TYPES = {"halffloat": "float16", "float": "float32", "double": "float64"}

_ARROW_FILE_MAGIC = b"ARROW1"


class Table:
    """An open Parquet file, Arrow file or Arrow stream.

    Read, never mapped: a mapped file that becomes shorter would end the process.
    """

    def __init__(self, stamp: FileStamp, stream: Any) -> None:
        self._stream = stream
        self.parquet: Any = None
        """The file as pyarrow has it, None where it is Arrow's own."""
        if stamp.suffix == ".parquet":
            import pyarrow.parquet as pq

            self.parquet = pq.ParquetFile(stream, buffer_size=_STREAM_BYTES, pre_buffer=False)
            self.schema = self.parquet.schema_arrow
        else:
            self._is_file = stream.read(len(_ARROW_FILE_MAGIC)) == _ARROW_FILE_MAGIC
            self.schema = self._reader().schema

    @property
    def rows(self) -> int:
        """The number of rows; an Arrow file does not say it, so that its batches are gone through."""
        if self.parquet is not None:
            return int(self.parquet.metadata.num_rows)
        return sum(batch.num_rows for batch in self._arrow_batches(0))

    def column(self, name: str, rows: int) -> Iterator[Any]:
        """Yield the arrays of a column, at most `rows` long and validated: offsets of a stranger's file may lie."""
        if self.parquet is not None:
            batches = self.parquet.iter_batches(rows, columns=[name], use_threads=False)
        else:
            batches = self._arrow_batches(self.schema.names.index(name))
        for batch in batches:
            batch.validate(full=True)
            for start in range(0, batch.num_rows, rows):
                yield batch.column(0).slice(start, rows)

    def _arrow_batches(self, column: int) -> Iterator[Any]:
        """Yield the record batches with this column alone."""
        reader = self._reader(included_fields=[column])
        return map(reader.get_batch, range(reader.num_record_batches)) if self._is_file else iter(reader)

    def _reader(self, **options: Any) -> Any:
        import pyarrow as pa

        self._stream.seek(0)
        read = pa.ipc.open_file if self._is_file else pa.ipc.open_stream
        return read(self._stream, options=pa.ipc.IpcReadOptions(**options))


@contextmanager
def open_table(stamp: FileStamp) -> Iterator[Table]:
    """Give the open table; whatever goes wrong within becomes a BadInput that names the file."""
    import pyarrow as pa

    with open_unchanged(stamp) as file:
        try:
            with pa.OSFile(f"/dev/fd/{file.fileno()}", "rb") as stream:
                yield Table(stamp, stream)
        except BadInput:
            raise
        except Exception as error:  # damaged bytes have the library raise whatever it can
            raise BadInput(
                f"{stamp.shown}: cannot be read ({one_line(error)}), expected a whole {stamp.suffix} file;"
                " write it again"
            ) from None


def open_embedding_table(stamp: FileStamp, choice: ColumnChoice) -> EmbeddingSource:
    """Open the chosen column of a Parquet or Arrow file; at most the first lists are read, for their length.

    Raises BadInput for a file that is damaged or encrypted, and where no column of lists of floats is chosen.
    """
    with open_table(stamp) as table:
        elements = {field.name: _element_type(field.type) for field in table.schema}
        column = choice.choose(stamp, [name for name in table.schema.names if elements[name]])
        rows = table.rows
        lists = (row for part in table.column(column, _PROBED_ROWS) for row in part.to_pylist())
        dim = next((len(row) for row in lists if row), 0)
    name = label(stamp.name, column)
    if rows:  # an empty shard does not know its width
        check_matrix(name, (rows, dim))

    def blocks(rows_per_block: int) -> Iterator[Array]:
        with open_table(stamp) as table:
            for lists in table.column(column, max(1, rows_per_block // _DECODER_SHARE)):
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
