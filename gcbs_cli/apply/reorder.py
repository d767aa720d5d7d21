"""Write data in plan order: read in sequence, bounded in memory, whole or not at all."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gcbs_cli.apply.buckets import MOST_BUCKETS, Buckets
from gcbs_cli.apply.data_rows import ByteData, DataRows, TableData
from gcbs_cli.apply.files import DataFiles, atomic_targets
from gcbs_cli.data.files import one_line
from gcbs_cli.plan_file import writing
from gcbs_cli.system.arrays import inverse
from gcbs_cli.system.errors import BadInput

DEFAULT_MEMORY: Final = 1 << 29
"""Bytes of rows and working copies in memory at once, where nothing was said."""
_COPIES: Final = 8
"""A bucket as its batches and joined, its sorted rows, the block being read and the block being written."""


@dataclass(frozen=True)
class Reordered:
    """What was written: the paths, their rows, and in how many buckets the rows were sorted."""

    paths: list[Path]
    rows: list[int]
    buckets: int


def reorder(
    perm: NDArray[np.int64],
    files: DataFiles,
    output: Path,
    *,
    memory: int = DEFAULT_MEMORY,
    header: bool = True,
    most_buckets: int = MOST_BUCKETS,
) -> Reordered:
    """Write row perm[p] of the data at place p, rows byte for byte; shards keep their names and numbers of rows.

    memory: bytes. header: the first record of each CSV file names its columns and stays there.
    Raises BadInput when the data has more or fewer rows than the plan, is damaged, or holds what Arrow cannot reorder.
    """
    limit = max(1, memory // _COPIES)
    try:
        tables = files.kind == "parquet"
        data = TableData(files.stamps) if tables else ByteData(files, len(perm), header=header)
        with (
            atomic_targets(files, output) as targets,
            closing(Buckets(perm, data.row_bytes * len(perm), limit, output.parent, most_buckets)) as buckets,
        ):
            counts, sizes = _fill(buckets, data, len(targets))
            _write(data, _in_order(buckets, data, sizes, limit), targets, counts)
            used = len(buckets.files)
    except (pa.ArrowException, NotImplementedError) as error:
        raise BadInput(
            f"{files.stamps[0].shown}: cannot be reordered ({one_line(error)}); convert it or write it again"
        ) from None
    return Reordered([output] if files.single else [output / target.name for target in targets], counts, used)


def _fill(buckets: Buckets, data: DataRows, files: int) -> tuple[list[int], NDArray[np.int64]]:
    """Deal all rows to the buckets; return the rows of each file and the bytes of each bucket."""
    writers = [pa.ipc.new_stream(file, data.schema) for file in buckets.files]
    counts, sizes = [0] * files, np.zeros(len(writers), np.int64)
    for number, stamp, batch in data.batches():
        for bucket, some in buckets.deal(sum(counts), batch.num_rows, stamp.shown):
            part = batch if len(some) == batch.num_rows else batch.take(pa.array(some))
            writers[bucket].write_batch(part)
            sizes[bucket] += part.nbytes
        counts[number] += batch.num_rows
    for writer in writers:
        writer.close()
    buckets.check_filled(sum(counts))
    return counts, sizes


def _in_order(buckets: Buckets, data: DataRows, sizes: NDArray[np.int64], limit: int) -> Iterator[Any]:
    """Yield all rows in plan order, as tables of a few MiB; a bucket too large for memory is read several times."""
    for number, size in enumerate(sizes.tolist()):
        arrived = inverse(np.argsort(buckets.wanted(number)))
        for places in np.array_split(arrived, min(size // (2 * limit) + 1, len(arrived))):
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


def _write(data: DataRows, tables: Iterator[Any], targets: list[Path], counts: list[int]) -> None:
    rest = data.schema.empty_table()
    for number, (target, rows) in enumerate(zip(targets, counts, strict=True)):
        with writing.file(target) as file, data.writer(number, file) as write:
            for start in range(0, rows, data.group_rows):
                count = min(data.group_rows, rows - start)
                while rest.num_rows < count:
                    rest = pa.concat_tables([rest, next(tables)])
                write(rest.slice(0, count))
                rest = rest.slice(count)
