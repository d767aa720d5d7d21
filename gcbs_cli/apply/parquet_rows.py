"""Parquet files, read and written by row groups."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gcbs_cli.data.files import FileStamp
from gcbs_cli.data.tables import ROWS_AT_ONCE, open_table, read_batches
from gcbs_cli.system.arrays import Ints

_COPIES = 4  # how often a row lies in memory: as read, in order, encoded, and what Arrow rounds up (measured)


class ParquetRows:
    """All rows of some files, whose schemas are their layouts. Raises BadInput for a damaged file."""

    def __init__(self, stamps: list[FileStamp]) -> None:
        self._stamps = stamps
        self.layouts = []
        self.counts = []
        self._group_rows = []
        sizes = [np.empty(0, np.int64)]
        for stamp in stamps:
            with open_table(stamp) as table:
                self.layouts.append(table.schema_arrow)
                self.counts.append(table.metadata.num_rows)
                # All rows are looked at: what they take in memory, neither the file nor the first ones tell.
                for batch in read_batches(table, ROWS_AT_ONCE):
                    sizes.append(np.full(len(batch), _COPIES * (batch.nbytes // len(batch) + 1)))
                self._group_rows.append(table.metadata.num_rows // max(1, table.num_row_groups) + 1)
        self.row_bytes = np.concatenate(sizes)  # (N,) the memory that each row takes

    def read(self, rows: Ints) -> Any:
        """Read rows as a table, every file from front to back. Raises BadInput when one is damaged or has changed."""
        rising = np.sort(rows)
        parts = []
        first = 0
        for stamp in self._stamps:
            with open_table(stamp) as table:
                for batch in read_batches(table, ROWS_AT_ONCE):
                    start, stop = np.searchsorted(rising, (first, first + len(batch)))
                    parts.append(batch.take(rising[start:stop] - first))
                    first += len(batch)
        return pa.Table.from_batches(parts).unify_dictionaries().take(np.searchsorted(rising, rows))

    @contextmanager
    def writer(self, number: int, file: BinaryIO) -> Iterator[Callable[[Any], object]]:
        """Give what writes tables to a new file, with the row groups of the one of this number."""
        with pq.ParquetWriter(file, self.layouts[0]) as writer:
            yield lambda rows: writer.write_table(rows, row_group_size=self._group_rows[number])
