"""Write data in plan order: rows are dealt to temporary files of consecutive places, then each file is sorted.

Both passes read and write in sequence, so that data far larger than memory moves at the disk's speed.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from gcbs_cli.apply.data_rows import ByteData, DataFiles, TableData, atomic_targets, rows_at_once
from gcbs_cli.data.files import one_line
from gcbs_cli.plan_file import writing
from gcbs_cli.system.arrays import Ints, inverse
from gcbs_cli.system.errors import BadInput

DEFAULT_MEMORY = 1 << 29
MOST_BUCKETS = 256
"""Open files at once; a bucket that is too large for memory is then sorted piece by piece."""
_COPIES = 8
"""A bucket as its batches and joined, its sorted rows, the block being read and the block being written."""


@dataclass(frozen=True)
class _Bucket:
    """The rows of consecutive places: their numbers in plan order, and the file that holds them in rising order."""

    rows: Ints
    file: BinaryIO


def reorder(
    perm: Ints,
    files: DataFiles,
    output: Path,
    *,
    memory: int | None = None,
    header: bool = True,
    most_buckets: int = MOST_BUCKETS,
) -> tuple[list[int], int]:
    """Write row perm[p] of the data at place p, rows byte for byte; shards keep their names and numbers of rows.

    Returns the rows of each file, and in how many buckets they were sorted.
    memory: bytes of rows and working copies; unless given, 512 MiB beside what reading takes. header: the first record
    of each CSV file names its columns and stays. Raises BadInput when the data has more or fewer rows than the plan, is
    damaged, holds what Arrow cannot reorder, or takes more memory to read.
    """
    pa.set_memory_pool(pa.system_memory_pool())  # the others keep twice of what was freed
    try:
        data = TableData(files, memory) if files.kind == "parquet" else ByteData(files, len(perm), header=header)
        limit = max(1, (DEFAULT_MEMORY if memory is None else memory - data.reading) // _COPIES)
        pieces = np.array_split(perm, min(most_buckets, len(perm), int(data.row_bytes * len(perm) / limit) + 1))
        with atomic_targets(files, output) as targets, ExitStack() as open_files:
            buckets = [
                _Bucket(rows, open_files.enter_context(tempfile.TemporaryFile(dir=output.parent))) for rows in pieces
            ]
            counts = _deal(data, buckets, len(targets))
            if sum(counts) != len(perm):
                raise BadInput(
                    f"the data has {sum(counts):,} rows, the plan {len(perm):,}; was it made for other data?"
                )
            group_rows = max(1, min(data.group_rows, int(limit / data.row_bytes)))
            _write(data, _in_order(buckets, data, limit), targets, counts, group_rows)
    except (pa.ArrowException, NotImplementedError) as error:
        raise BadInput(
            f"{files.stamps[0].shown}: cannot be reordered ({one_line(error)}); convert it or write it again"
        ) from None
    return counts, len(pieces)


def _deal(data: ByteData | TableData, buckets: list[_Bucket], files: int) -> list[int]:
    """Deal all rows to the buckets; return the rows of each file. Rows beyond those of the plan are only counted."""
    bucket_of_row = np.empty(sum(len(bucket.rows) for bucket in buckets), np.int16)
    for number, bucket in enumerate(buckets):
        bucket_of_row[bucket.rows] = number
    writers = [pa.ipc.new_stream(bucket.file, data.schema) for bucket in buckets]
    counts = [0] * files
    for file, batch in data.batches():
        into = bucket_of_row[sum(counts) :][: batch.num_rows]
        for number in np.unique(into).tolist():
            some = np.flatnonzero(into == number)
            writers[number].write_batch(batch if len(some) == batch.num_rows else batch.take(some))
        counts[file] += batch.num_rows
    for writer in writers:
        writer.close()
    return counts


def _in_order(buckets: list[_Bucket], data: ByteData | TableData, limit: int) -> Iterator[Any]:
    """Yield all rows in plan order, as tables of a few MiB; a bucket too large for memory is read several times."""
    step = rows_at_once(data.row_bytes)
    for bucket in buckets:
        arrived, windows = inverse(np.argsort(bucket.rows)), bucket.file.tell() // (2 * limit) + 1
        for places in np.array_split(arrived, min(windows, len(arrived))):
            table = _read(bucket.file, np.sort(places))
            order = inverse(np.argsort(places))
            for start in range(0, len(order), step):
                yield table.take(order[start : start + step])
            del table


def _read(file: BinaryIO, places: Ints) -> Any:
    """Return the rows of a bucket at rising places of it as a table of one chunk: take joins chunks at each call."""
    file.seek(0)
    reader = pa.ipc.open_stream(file)
    parts, first = [], 0
    for batch in reader:
        inside = places[slice(*np.searchsorted(places, (first, first + batch.num_rows)))] - first
        first += batch.num_rows
        if len(inside):
            parts.append(batch if len(inside) == batch.num_rows else batch.take(inside))
    return pa.Table.from_batches(parts, schema=reader.schema).unify_dictionaries().combine_chunks()


def _write(
    data: ByteData | TableData, tables: Iterator[Any], targets: list[Path], counts: list[int], group_rows: int
) -> None:
    rest = data.schema.empty_table()
    for number, (target, rows) in enumerate(zip(targets, counts, strict=True)):
        with writing.file(target) as file, data.writer(number, file) as write:
            for start in range(0, rows, group_rows):
                count = min(group_rows, rows - start)
                while rest.num_rows < count:
                    rest = pa.concat_tables([rest, next(tables)])
                write(rest.slice(0, count))
                rest = rest.slice(count)
