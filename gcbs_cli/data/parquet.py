"""Reads list columns of Parquet and Arrow files batch by batch, in bounded memory even where a row group is large."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.arrow_file import ArrowFile
from gcbs_cli.data.columns import ColumnChoice
from gcbs_cli.data.files import FileStamp, changed, one_line, open_unchanged, stamp_file
from gcbs_cli.data.row_list import RowList
from gcbs_cli.data.source import RAW_DTYPES
from gcbs_cli.system.errors import BadInput

TABLE_SUFFIXES: Final = (".parquet", ".arrow", ".feather")
"""The formats that have columns and are read here."""

_STREAM_BYTES: Final = 1024 * 1024
"""How much of a column is read at a time; without it, a whole column of a row group is."""

_DECODER_SHARE: Final = 8
"""Decoding holds six times a batch beside it, so a batch is an eighth of the block that was asked for."""

_PROBED_ROWS: Final = 16
"""Rows of a batch when only the width of the lists is looked for."""

_ELEMENT_TYPES: Final = {"halffloat": "float16", "float": "float32", "double": "float64"}


@dataclass(frozen=True)
class ParquetSource:
    """A column of lists of floats; an `EmbeddingSource`."""

    stamp: FileStamp
    column: str
    rows: int
    dim: int
    dtype: str

    @property
    def name(self) -> str:
        """The path and the column."""
        return self.stamp.label(self.column)

    @property
    def paths(self) -> tuple[str, ...]:
        """The one file."""
        return (self.stamp.path,)

    @property
    def stamps(self) -> tuple[FileStamp, ...]:
        """The one file's."""
        return (self.stamp,)

    def locate(self, row: int) -> str:
        """Return "": the row number says it all."""
        return ""

    def blocks(self, rows_per_block: int) -> Iterator[NDArray[Any]]:
        """Yield the rows in blocks; see `EmbeddingSource.blocks`.

        Raises BadInput at the end, with their count, when rows hold nulls or lists of another length.
        """
        nulls, ragged = RowList(), RowList()
        done = 0
        with open_table(self.stamp) as file:
            for lists in _batches(file, self.column, max(1, rows_per_block // _DECODER_SHARE)):
                lengths = _lengths(lists)
                values = _values(lists, lengths)
                null = _rows_with_null(lists, values, lengths)
                other_length = ~null & (lengths != self.dim)
                nulls.add(null, done)
                ragged.add(other_length, done)
                done += len(lists)
                if not nulls.count and not ragged.count:
                    yield _elements(values, RAW_DTYPES[self.dtype]).reshape(-1, self.dim)
        if nulls.count:
            raise BadInput(f"{self.name}: found {nulls} with nulls, expected none; drop these pairs from both sides")
        if ragged.count:
            raise BadInput(
                f"{self.name}: found {ragged} of another length, expected {self.dim:,} values in each row"
                " as in the first; drop these pairs from both sides"
            )


def open_parquet(path: str, choice: ColumnChoice) -> ParquetSource:
    """Open the chosen column of a Parquet or Arrow file; at most the first lists are read, for their length.

    Raises BadInput for a file that is damaged or encrypted, and for a column that is not lists of floats.
    """
    stamp = stamp_file(path)
    with open_table(stamp) as file:
        schema = file.schema_arrow
        types = [_storage_type(field.type) for field in schema]
        matrices = [name for name, kind in zip(schema.names, types, strict=True) if _element_type(kind) is not None]
        name = choice.choose(stamp, list(schema.names), matrices, "column")
        kind = types[schema.names.index(name)]
        element = _element_type(kind)
        if element is None:
            raise BadInput(
                f"{stamp.label(name)}: found a column of {one_line(ValueError(str(kind)))}, expected lists of float16,"
                f" float32 or float64; convert it or name another with {choice.option}"
            )
        rows = file.metadata.num_rows
        dim = _list_length(file, name, kind) if rows else 0
    if rows and dim < 1:
        raise BadInput(f"{stamp.label(name)}: found only nulls and empty lists, expected embeddings; write it again")
    return ParquetSource(stamp, name, rows, dim, element)


@contextmanager
def open_table(stamp: FileStamp) -> Iterator[Any]:
    """Give the open `ParquetFile` or `ArrowFile`; whatever goes wrong within becomes a BadInput that names it."""
    import pyarrow as pa

    damage = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, OverflowError, RuntimeError)
    with open_unchanged(stamp):
        try:
            with pa.OSFile(stamp.path, "rb") as stream, _table(stamp, stream) as file:
                yield file
        except BadInput:
            raise
        except (*damage, MemoryError) as error:
            if stamp_file(stamp.path) != stamp:
                raise changed(stamp) from None
            raise BadInput(
                f"{stamp.shown}: found that it cannot be read ({one_line(error)}), expected a whole {_kind(stamp)}"
                " file; write it again"
            ) from None
        if stamp_file(stamp.path) != stamp:  # pyarrow opened it by its name
            raise changed(stamp)


def _table(stamp: FileStamp, stream: Any) -> Any:
    if _kind(stamp) == "Arrow":
        return ArrowFile(stream)
    import pyarrow.parquet as pq

    return pq.ParquetFile(stream, buffer_size=_STREAM_BYTES, pre_buffer=False)


def _kind(stamp: FileStamp) -> str:
    return "Parquet" if stamp.path.lower().endswith(".parquet") else "Arrow"


def _batches(file: Any, column: str, rows: int) -> Iterator[Any]:
    """Yield the column's arrays of lists, at most `rows` long; extension types give their storage."""
    import pyarrow as pa

    for batch in file.iter_batches(rows, columns=[column], use_threads=False):
        if batch.num_columns != 1:
            raise ValueError(f"{batch.num_columns} columns named {column}")
        lists = batch.column(0)
        yield lists.storage if isinstance(lists, pa.ExtensionArray) else lists


def _storage_type(kind: Any) -> Any:
    import pyarrow as pa

    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _element_type(kind: Any) -> str | None:
    """Return the element type of a list of floats, None for any other type."""
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _ELEMENT_TYPES.get(str(kind.value_type))
    return None


def _list_length(file: Any, column: str, kind: Any) -> int:
    """Return the length of the lists: the type's own, or that of the first list with values (0 if none has)."""
    from pyarrow import types

    if types.is_fixed_size_list(kind):
        return int(kind.list_size)
    for lists in _batches(file, column, _PROBED_ROWS):
        lengths = np.where(_is_null(lists), 0, _lengths(lists))
        if lengths.any():
            return int(lengths[lengths > 0][0])
    return 0


def _lengths(lists: Any) -> NDArray[np.int64]:
    """Return how many values lie under each list (n,); under a null there may be some."""
    from pyarrow import types

    if types.is_fixed_size_list(lists.type):
        return np.full(len(lists), lists.type.list_size, dtype=np.int64)
    kind = np.int64 if types.is_large_list(lists.type) else np.int32
    return np.diff(_elements(lists.offsets, np.dtype(kind))).astype(np.int64)


def _values(lists: Any, lengths: NDArray[np.int64]) -> Any:
    """Return the array of the values under all lists, nulls included."""
    from pyarrow import types

    fixed = types.is_fixed_size_list(lists.type)
    start = lists.offset * lists.type.list_size if fixed else int(lists.offsets[0].as_py())
    return lists.values.slice(start, int(lengths.sum()))


def _rows_with_null(lists: Any, values: Any, lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which lists (n,) are null or hold one."""
    null = _is_null(lists)
    if values.null_count:
        null[np.repeat(np.arange(len(lists)), lengths)[_is_null(values)]] = True
    return null


def _elements(array: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a view of the memory of an array of numbers; its own to_numpy would import pandas, which is slow."""
    if len(array) == 0:
        return np.empty(0, dtype=dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def _is_null(array: Any) -> NDArray[np.bool_]:
    if array.null_count == 0:
        return np.zeros(len(array), dtype=np.bool_)
    mask: NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False).copy()
    return mask
