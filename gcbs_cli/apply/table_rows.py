"""Reorder Parquet with bounded memory: the same two passes as for bytes, on record batches."""

import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gcbs_cli.apply.buckets import MOST_BUCKETS
from gcbs_cli.apply.places import Places
from gcbs_cli.data.files import FileStamp, one_line, open_unchanged
from gcbs_cli.system.errors import BadInput

_BATCH_BYTES = 1 << 22
_TRIAL_ROWS = 256


class ParquetFiles:
    """Parquet files of one schema. Raises BadInput when one is damaged or differs."""

    def __init__(self, stamps: Sequence[FileStamp]) -> None:
        self._stamps = stamps
        metadata = [_metadata(stamp) for stamp in stamps]
        self.rows = [each.num_rows for each in metadata]
        self.schema: Any = _schema(stamps[0])
        for stamp in stamps[1:]:
            if not _schema(stamp).equals(self.schema):
                raise BadInput(f"{stamp.shown}: its columns differ from those of {stamps[0].shown}")
        first = metadata[0].row_group(0) if metadata[0].num_row_groups else None
        self.group_rows = max(first.num_rows, 1) if first else 1
        codec = first.column(0).compression.lower() if first and first.num_columns else "snappy"
        self.compression = "none" if codec == "uncompressed" else codec
        self.row_bytes = self._row_bytes()
        self.rows_at_once = max(1, min(1 << 16, int(_BATCH_BYTES / self.row_bytes)))

    def batches(self) -> Iterator[Any]:
        """All rows in record batches of a few MiB."""
        for stamp in self._stamps:
            with open_unchanged(stamp):
                try:
                    with pq.ParquetFile(stamp.path, pre_buffer=False) as file:
                        yield from file.iter_batches(batch_size=self.rows_at_once, use_threads=False)
                except (pa.ArrowException, OSError) as error:
                    raise BadInput(f"{stamp.shown}: cannot be read: {one_line(error)}") from None

    def _row_bytes(self) -> float:
        """Bytes of a row in memory, from the first ones; encoded sizes say little."""
        with pq.ParquetFile(self._stamps[0].path, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=_TRIAL_ROWS, use_threads=False):
                return max(batch.get_total_buffer_size() / max(batch.num_rows, 1), 1.0)
        return 1.0


class BucketedTables:
    """Record batches on their way to plan order. `limit`: bytes of rows in memory at once.

    A bucket takes half of it, for it is there twice for a moment: as its batches and joined.
    """

    def __init__(self, files: ParquetFiles, places: Places, limit: int, folder: Path) -> None:
        self._files, self._places, self._limit = files, places, limit // 2
        total = files.row_bytes * places.rows
        count = int(min(MOST_BUCKETS, max(1, -(-total // self._limit)), places.rows))
        self._rows_each = -(-places.rows // count)
        count = -(-places.rows // self._rows_each)
        self._buckets: list[BinaryIO] = [tempfile.TemporaryFile(dir=folder) for _ in range(count)]  # noqa: SIM115
        self._bytes = np.zeros(count, np.int64)

    @property
    def count(self) -> int:
        """How many buckets there are: files without a name."""
        return len(self._buckets)

    def close(self) -> None:
        """Give the buckets back."""
        for bucket in self._buckets:
            bucket.close()

    def fill(self) -> None:
        """Deal all rows to the buckets, each with its place."""
        schema = self._files.schema.append(pa.field(_PLACE, pa.int64()))
        writers = [pa.ipc.new_stream(bucket, schema) for bucket in self._buckets]
        row = 0
        for batch in self._files.batches():
            place = self._places.of_rows(row, row + batch.num_rows).astype(np.int64)
            row += batch.num_rows
            bucket = place // self._rows_each
            order = np.argsort(bucket, kind="stable")
            edges = np.searchsorted(bucket[order], np.arange(self.count + 1))
            placed = pa.RecordBatch.from_arrays([*batch.columns, pa.array(place)], schema=schema)
            for number, (start, end) in enumerate(pairwise(edges.tolist())):
                if start < end:
                    part = placed.take(pa.array(order[start:end]))
                    writers[number].write_batch(part)
                    self._bytes[number] += part.nbytes
        for writer in writers:
            writer.close()

    def in_order(self) -> Iterator[Any]:
        """All rows in plan order, as tables of a few MiB."""
        for number, bucket in enumerate(self._buckets):
            start = number * self._rows_each
            stop = min(start + self._rows_each, self._places.rows)
            parts = int(self._bytes[number] // (2 * self._limit)) + 1
            step = -(-(stop - start) // parts)
            for first in range(start, stop, step):
                part, order = _read_part(bucket, first, min(first + step, stop))
                for piece in range(0, len(order), self._files.rows_at_once):
                    yield part.take(pa.array(order[piece : piece + self._files.rows_at_once]))
                del part


_PLACE = "__gcbs_place__"


def _read_part(bucket: BinaryIO, start: int, stop: int) -> tuple[Any, NDArray[np.intp]]:
    """The rows of a bucket whose places lie in a range, as a table, and the order that sorts them by place."""
    bucket.seek(0)
    reader = pa.ipc.open_stream(bucket)
    parts, places = [], []
    for batch in reader:
        place = batch.column(batch.num_columns - 1).to_numpy()
        inside = np.flatnonzero((place >= start) & (place < stop))
        if len(inside):
            parts.append(batch if len(inside) == len(place) else batch.take(pa.array(inside)))
            places.append(place[inside])
    table = (
        pa.Table.from_batches(parts, schema=reader.schema).unify_dictionaries().combine_chunks()
    )  # take joins them, at each call
    return table.drop_columns([_PLACE]), np.argsort(np.concatenate(places))


def _metadata(stamp: FileStamp) -> Any:
    try:
        return pq.read_metadata(stamp.path)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{stamp.shown}: no Parquet file, or damaged: {one_line(error)}") from None


def _schema(stamp: FileStamp) -> Any:
    return pq.read_schema(stamp.path)
