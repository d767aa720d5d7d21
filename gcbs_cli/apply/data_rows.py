"""What is reordered, as Arrow batches: rows of bytes of one column, or the rows of Parquet files."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gcbs_cli.apply.byte_rows import ByteRows, open_lines, open_npy_rows
from gcbs_cli.apply.files import DataFiles
from gcbs_cli.data.files import FileStamp, one_line, open_unchanged
from gcbs_cli.system.errors import BadInput

_BATCH_BYTES: Final = 1 << 22
_TRIAL_ROWS: Final = 256
_WRITE_ROWS: Final = 1 << 13

Write = Callable[[Any], None]


class DataRows:
    """The rows of all files. `row_bytes`: of a row in memory, about; `group_rows`: rows that are written together."""

    schema: Any
    row_bytes: float
    group_rows: int

    @property
    def rows_at_once(self) -> int:
        """Rows of a batch of a few MiB."""
        return max(1, min(1 << 16, int(_BATCH_BYTES / self.row_bytes)))

    def batches(self) -> Iterator[tuple[int, FileStamp, Any]]:
        """Yield all rows as record batches, each with the number and the stamp of its file. Raises BadInput."""
        raise NotImplementedError

    @contextmanager
    def writer(self, number: int, file: BinaryIO) -> Iterator[Write]:
        """Give the function that writes a table of rows to the file of a number."""
        raise NotImplementedError


class ByteData(DataRows):
    """Rows of bytes, byte for byte. Raises BadInput when a file is damaged or unlike the first."""

    group_rows = _WRITE_ROWS

    def __init__(self, files: DataFiles, rows: int, *, header: bool) -> None:
        self.schema = pa.schema({"row": pa.large_binary()})
        self.row_bytes = files.bytes / rows + 8
        quoted = files.kind == "csv"
        self._sources: list[ByteRows] = [
            open_npy_rows(stamp) if files.kind == "npy" else open_lines(stamp, quoted=quoted, header=quoted and header)
            for stamp in files.stamps
        ]
        first = self._sources[0]
        for source in self._sources[1:]:
            if source.layout != first.layout:
                what = "its header differs from that" if quoted else "its rows differ in shape or type from those"
                raise BadInput(f"{source.stamp.shown}: {what} of {first.stamp.shown}")

    def batches(self) -> Iterator[tuple[int, FileStamp, Any]]:
        for number, source in enumerate(self._sources):
            for array in source.arrays():
                yield number, source.stamp, pa.record_batch([array], schema=self.schema)

    @contextmanager
    def writer(self, number: int, file: BinaryIO) -> Iterator[Write]:
        file.write(self._sources[number].prefix)

        def write(table: Any) -> None:
            for array in table.column(0).chunks:
                offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
                file.write(memoryview(array.buffers()[2])[offsets[0] : offsets[-1]])

        yield write


class TableData(DataRows):
    """The rows of Parquet files of one schema. Raises BadInput when one is damaged or differs."""

    def __init__(self, stamps: Sequence[FileStamp]) -> None:
        self._stamps = stamps
        metadata = [_metadata(stamp) for stamp in stamps]
        self.schema = pq.read_schema(stamps[0].path)
        for stamp in stamps[1:]:
            if not pq.read_schema(stamp.path).equals(self.schema):
                raise BadInput(f"{stamp.shown}: its columns differ from those of {stamps[0].shown}")
        first = metadata[0].row_group(0) if metadata[0].num_row_groups else None
        self.group_rows = max(first.num_rows, 1) if first else 1
        codec = first.column(0).compression.lower() if first and first.num_columns else "snappy"
        self._compression = "none" if codec == "uncompressed" else codec
        trial = next((batch for _, _, batch in self._read(_TRIAL_ROWS) if batch.num_rows), None)
        # From the first rows: encoded sizes say little.
        self.row_bytes = max(trial.get_total_buffer_size() / trial.num_rows, 1.0) if trial is not None else 1.0

    def batches(self) -> Iterator[tuple[int, FileStamp, Any]]:
        return self._read(self.rows_at_once)

    def _read(self, rows: int) -> Iterator[tuple[int, FileStamp, Any]]:
        for number, stamp in enumerate(self._stamps):
            with open_unchanged(stamp), pq.ParquetFile(stamp.path, pre_buffer=False) as file:
                for batch in file.iter_batches(batch_size=rows, use_threads=False):
                    yield number, stamp, batch

    @contextmanager
    def writer(self, number: int, file: BinaryIO) -> Iterator[Write]:
        with pq.ParquetWriter(file, self.schema, compression=self._compression) as writer:
            yield lambda table: writer.write_table(table.unify_dictionaries(), row_group_size=table.num_rows)


def _metadata(stamp: FileStamp) -> Any:
    try:
        return pq.read_metadata(stamp.path)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{stamp.shown}: no Parquet file, or damaged: {one_line(error)}") from None
