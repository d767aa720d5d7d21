"""Parquet files, read and written by row groups."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gcbs_cli.apply.byte_rows import Write
from gcbs_cli.data.files import FileStamp, one_line
from gcbs_cli.data.tables import open_table
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput

MOST_MEMORY = 1 << 32
"""With more, texts of a column could pass the 2 GiB that Arrow puts in order at a time."""
_BATCH_BYTES = 1 << 22
_TRIAL_ROWS = 256
_COPIES = 4
"""How often a row lies in memory: as read, in order, encoded, and what Arrow rounds up (measured)."""


class ParquetFile:
    """A Parquet file; layout: its schema, row_bytes: (rows,) the memory that each row takes.

    Raises BadInput when it is damaged.
    """

    def __init__(self, stamp: FileStamp) -> None:
        self.stamp = stamp
        self._group_rows, self._compression = 1, "snappy"
        with open_table(stamp) as table:
            self.layout = table.schema
            # What a row takes in memory is told by the first ones: in the file they are encoded.
            trial = next(_batches(table.parquet, _TRIAL_ROWS), self.layout.empty_table())
            row_bytes = 1 + trial.nbytes // max(1, trial.num_rows)
            self.row_bytes = np.full(table.parquet.metadata.num_rows, _COPIES * row_bytes)
            self._batch_rows = max(1, _BATCH_BYTES // row_bytes)
            if trial.num_rows and trial.num_columns:  # not before the trial: of a damaged column pyarrow aborts here
                group = table.parquet.metadata.row_group(0)
                self._group_rows = max(1, group.num_rows)
                self._compression = group.column(0).compression.lower().replace("uncompressed", "none")

    def read(self, rows: Ints) -> Any:
        """Read rows, in rising order, as a table. Raises BadInput when the file is damaged or has changed."""
        parts = []
        first = 0
        with open_table(self.stamp) as table:
            for batch in _batches(table.parquet, self._batch_rows):
                start, stop = np.searchsorted(rows, (first, first + batch.num_rows))
                parts.append(batch.take(rows[start:stop] - first))
                first += batch.num_rows
            return pa.Table.from_batches(parts, self.layout)

    @staticmethod
    def joined(parts: list[Any], order: Ints) -> Any:
        """The rows of several tables as one table in this order. Raises BadInput when Arrow cannot do that."""
        try:
            return pa.concat_tables(parts).unify_dictionaries().take(order)
        except pa.ArrowException as error:
            raise BadInput(f"rows cannot be put in order ({one_line(error)}); try a lower --max-memory") from None

    @contextmanager
    def writer(self, file: BinaryIO) -> Iterator[Write]:
        """Give what writes a table of rows to a new file, with the row groups and the compression of this one."""
        with pq.ParquetWriter(file, self.layout, compression=self._compression) as writer:
            yield lambda rows: writer.write_table(rows, row_group_size=self._group_rows)


def _batches(file: Any, rows: int) -> Iterator[Any]:
    """Yield all rows, at most so many at a time, validated: offsets of a stranger's file may lie."""
    for group in range(file.num_row_groups):  # a batch of two would be of two dictionaries
        for batch in file.iter_batches(rows, row_groups=[group], use_threads=False):
            batch.validate(full=True)
            yield batch
