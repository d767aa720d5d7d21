"""Parquet rows through buckets into plan order, as record batches."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gcbs_cli.apply.buckets import Buckets
from gcbs_cli.data.files import FileStamp, one_line, open_unchanged
from gcbs_cli.plan_file import writing
from gcbs_cli.system.arrays import inverse
from gcbs_cli.system.errors import BadInput

_BATCH_BYTES: Final = 1 << 22
_TRIAL_ROWS: Final = 256


def reorder_tables(
    stamps: Sequence[FileStamp],
    perm: NDArray[np.int64],
    targets: Sequence[Path],
    limit: int,
    folder: Path,
    most_buckets: int,
) -> tuple[list[int], int]:
    """Write the rows of Parquet files in plan order; return the rows of each and the number of buckets.

    A bucket takes half of `limit`, for it is there twice for a moment: as its batches and joined. Raises BadInput when
    a file is damaged, differs from the first or holds what Arrow cannot reorder.
    """
    name = stamps[0].shown
    try:
        data = _ParquetFiles(stamps)
        buckets = Buckets(perm, data.row_bytes * len(perm), limit // 2, folder, most_buckets)
        try:
            buckets.check_filled(sum(data.rows))
            sizes = _fill(buckets, data)
            _write(data, _in_order(buckets, data, sizes, limit // 2), targets)
            return data.rows, len(buckets.files)
        finally:
            buckets.close()
    except (pa.ArrowException, NotImplementedError) as error:
        raise BadInput(f"{name}: cannot be reordered ({one_line(error)}); convert or rewrite its columns") from None


class _ParquetFiles:
    """Parquet files of one schema."""

    def __init__(self, stamps: Sequence[FileStamp]) -> None:
        self._stamps = stamps
        metadata = [_metadata(stamp) for stamp in stamps]
        self.rows = [each.num_rows for each in metadata]
        self.schema: Any = pq.read_schema(stamps[0].path)
        for stamp in stamps[1:]:
            if not pq.read_schema(stamp.path).equals(self.schema):
                raise BadInput(f"{stamp.shown}: its columns differ from those of {stamps[0].shown}")
        first = metadata[0].row_group(0) if metadata[0].num_row_groups else None
        self.group_rows = max(first.num_rows, 1) if first else 1
        codec = first.column(0).compression.lower() if first and first.num_columns else "snappy"
        self.compression = "none" if codec == "uncompressed" else codec
        trial = next((batch for _, batch in self.batches(_TRIAL_ROWS)), None)
        self.row_bytes = max(trial.get_total_buffer_size() / trial.num_rows, 1.0) if trial and trial.num_rows else 1.0
        """Of a row in memory, from the first ones; encoded sizes say little."""
        self.rows_at_once = max(1, min(1 << 16, int(_BATCH_BYTES / self.row_bytes)))

    def batches(self, rows: int) -> Iterator[tuple[FileStamp, Any]]:
        """Yield all rows in record batches."""
        for stamp in self._stamps:
            with open_unchanged(stamp), pq.ParquetFile(stamp.path, pre_buffer=False) as file:
                for batch in file.iter_batches(batch_size=rows, use_threads=False):
                    yield stamp, batch


def _metadata(stamp: FileStamp) -> Any:
    try:
        return pq.read_metadata(stamp.path)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{stamp.shown}: no Parquet file, or damaged: {one_line(error)}") from None


def _fill(buckets: Buckets, data: _ParquetFiles) -> NDArray[np.int64]:
    """Deal all rows to the buckets; return the bytes of each."""
    writers = [pa.ipc.new_stream(file, data.schema) for file in buckets.files]
    sizes = np.zeros(len(writers), np.int64)
    row = 0
    for stamp, batch in data.batches(data.rows_at_once):
        for number, some in buckets.deal(row, batch.num_rows, stamp.shown):
            part = batch.take(pa.array(some))
            writers[number].write_batch(part)
            sizes[number] += part.nbytes
        row += batch.num_rows
    for writer in writers:
        writer.close()
    return sizes


def _in_order(buckets: Buckets, data: _ParquetFiles, sizes: NDArray[np.int64], limit: int) -> Iterator[Any]:
    """Yield all rows in plan order, as tables of a few MiB; a bucket too large for memory is read several times."""
    for number, size in enumerate(sizes.tolist()):
        arrived = inverse(np.argsort(buckets.wanted(number)))
        for places in np.array_split(arrived, size // (2 * limit) + 1):
            table = _read(buckets.files[number], np.sort(places))
            order = inverse(np.argsort(places))
            for start in range(0, len(order), data.rows_at_once):
                yield table.take(pa.array(order[start : start + data.rows_at_once]))
            del table


def _read(file: Any, places: NDArray[np.int64]) -> Any:
    """Return the rows of a bucket at rising places of it as a table of one chunk: take joins chunks at each call."""
    file.seek(0)
    reader = pa.ipc.open_stream(file)
    parts, first = [], 0
    for batch in reader:
        inside = places[slice(*np.searchsorted(places, (first, first + batch.num_rows)))] - first
        first += batch.num_rows
        if len(inside):
            parts.append(batch if len(inside) == batch.num_rows else batch.take(pa.array(inside)))
    return pa.Table.from_batches(parts, schema=reader.schema).unify_dictionaries().combine_chunks()


def _write(data: _ParquetFiles, tables: Iterator[Any], targets: Sequence[Path]) -> None:
    rest = data.schema.empty_table()
    for target, rows in zip(targets, data.rows, strict=True):
        with writing.file(target) as file, pq.ParquetWriter(file, data.schema, compression=data.compression) as writer:
            for start in range(0, rows, data.group_rows):
                count = min(data.group_rows, rows - start)
                while rest.num_rows < count:
                    rest = pa.concat_tables([rest, next(tables)])
                writer.write_table(rest.slice(0, count).unify_dictionaries(), row_group_size=count)
                rest = rest.slice(count)
