"""What is reordered, as Arrow batches: rows of bytes of one column, or the rows of Parquet files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gcbs_cli.apply.byte_rows import open_lines, open_npy_rows, open_samples
from gcbs_cli.apply.files import DataFiles
from gcbs_cli.data.tables import open_table
from gcbs_cli.system.errors import BadInput

_BATCH_BYTES: Final = 1 << 22
_TRIAL_ROWS: Final = 256
_WRITE_ROWS: Final = 1 << 13

Write = Callable[[Any], None]


class ByteData:
    """Rows of bytes, byte for byte. Raises BadInput when a file is damaged or unlike the first.

    row_bytes: of a row in memory, about. group_rows: how many are written together.
    """

    group_rows = _WRITE_ROWS

    def __init__(self, files: DataFiles, rows: int, *, header: bool) -> None:
        self.schema = pa.schema({"row": pa.large_binary()})
        self.row_bytes = sum(stamp.size for stamp in files.stamps) / rows + 8
        quoted = files.kind == "csv"
        of_lines = partial(open_lines, quoted=quoted, header=quoted and header)
        open_rows = {"npy": open_npy_rows, "tar": open_samples}.get(files.kind, of_lines)
        self._sources = [open_rows(stamp) for stamp in files.stamps]
        first = self._sources[0]
        for source in self._sources[1:]:
            if source.layout != first.layout:
                what = "its header differs from that" if quoted else "its rows differ in shape or type from those"
                raise BadInput(f"{source.stamp.shown}: {what} of {first.stamp.shown}")

    def batches(self) -> Iterator[tuple[int, Any]]:
        """Yield all rows as record batches, each with the number of its file. Raises BadInput."""
        for number, source in enumerate(self._sources):
            for array in source.arrays():
                yield number, pa.record_batch([array], schema=self.schema)

    @contextmanager
    def writer(self, number: int, file: BinaryIO) -> Iterator[Write]:
        """Give the function that writes a table of rows to the file of a number."""
        file.write(self._sources[number].prefix)

        def write(table: Any) -> None:
            for array in table.column(0).chunks:
                offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
                file.write(memoryview(array.buffers()[2])[offsets[0] : offsets[-1]])

        yield write
        file.write(self._sources[number].suffix)


class TableData:
    """The rows of Parquet files of one schema. Raises BadInput when one is damaged or differs."""

    def __init__(self, files: DataFiles) -> None:
        self._stamps = files.stamps
        with open_table(self._stamps[0]) as table:
            self.schema, metadata = table.schema, table.parquet.metadata
            group = metadata.row_group(0) if metadata.num_row_groups else None
        for stamp in self._stamps[1:]:
            with open_table(stamp) as table:
                if not table.schema.equals(self.schema):
                    raise BadInput(f"{stamp.shown}: its columns differ from those of {self._stamps[0].shown}")
        self.group_rows = max(group.num_rows, 1) if group else 1
        codec = group.column(0).compression.lower() if group and group.num_columns else "snappy"
        self._compression = codec.replace("uncompressed", "none")
        self.row_bytes = 1.0
        trial = next((batch for _, batch in self._read(_TRIAL_ROWS) if batch.num_rows), None)
        if trial is not None:  # encoded sizes say little
            self.row_bytes = max(trial.get_total_buffer_size() / trial.num_rows, 1.0)

    def batches(self) -> Iterator[tuple[int, Any]]:
        """As those of `ByteData`."""
        return self._read(rows_at_once(self.row_bytes))

    def _read(self, rows: int) -> Iterator[tuple[int, Any]]:
        for number, stamp in enumerate(self._stamps):
            with open_table(stamp) as table:
                for group in range(table.parquet.num_row_groups):  # a batch of two would be of two dictionaries
                    for batch in table.parquet.iter_batches(batch_size=rows, row_groups=[group], use_threads=False):
                        batch.validate(full=True)
                        yield number, batch

    @contextmanager
    def writer(self, number: int, file: BinaryIO) -> Iterator[Write]:
        """As that of `ByteData`."""
        with pq.ParquetWriter(file, self.schema, compression=self._compression) as writer:
            yield lambda table: writer.write_table(table.unify_dictionaries(), row_group_size=table.num_rows)


def rows_at_once(row_bytes: float) -> int:
    """Rows of a batch of a few MiB."""
    return max(1, min(1 << 16, int(_BATCH_BYTES / row_bytes)))
