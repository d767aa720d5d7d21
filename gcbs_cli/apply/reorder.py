"""Write data in plan order: read in sequence, bounded in memory, whole or not at all."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.apply.buckets import BucketedRows
from gcbs_cli.apply.byte_rows import ByteRows, LineRows, NpyRows
from gcbs_cli.apply.files import DataFiles, atomic_targets
from gcbs_cli.apply.places import Places
from gcbs_cli.plan_file import writing
from gcbs_cli.system.errors import BadInput

if TYPE_CHECKING:
    from gcbs_cli.apply.table_rows import BucketedTables, ParquetFiles

DEFAULT_MEMORY = 1 << 29
"""Bytes of rows and working copies in memory at once, where nothing was said."""
_COPIES = 4
"""A bucket, its sorted views, the block being read and the block being written."""
_WRITE_ROWS = 1 << 13


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
) -> Reordered:
    """Write row perm[p] of the data at place p, rows byte for byte; shards keep their names and numbers of rows.

    memory: bytes. header: the first record of each CSV file names its columns and stays there.
    Raises BadInput when the data has more or fewer rows than the plan, or is damaged.
    """
    places, limit = Places(perm), max(1, memory // _COPIES)
    with atomic_targets(files, output) as targets:
        if files.kind == "parquet":
            rows, buckets = _reorder_tables(files, places, targets, limit, output.parent)
        else:
            rows, buckets = _reorder_bytes(_sources(files, header), files, places, targets, limit, output.parent)
    return Reordered([output] if files.single else [output / target.name for target in targets], rows, buckets)


def _sources(files: DataFiles, header: bool) -> Sequence[ByteRows]:
    if files.kind == "npy":
        arrays = [NpyRows(stamp) for stamp in files.stamps]
        for array in arrays[1:]:
            if array.layout != arrays[0].layout:
                raise BadInput(f"{array.stamp.shown}: its rows differ in shape or type from {arrays[0].stamp.shown}")
        return arrays
    quoted = files.kind == "csv"
    lines = [LineRows(stamp, quoted=quoted, header=quoted and header) for stamp in files.stamps]
    for each in lines[1:]:
        if quoted and each.prefix.split() != lines[0].prefix.split():
            raise BadInput(f"{each.stamp.shown}: its header differs from that of {lines[0].stamp.shown}")
    return lines


def _reorder_bytes(
    sources: Sequence[ByteRows], files: DataFiles, places: Places, targets: list[Path], limit: int, folder: Path
) -> tuple[list[int], int]:
    with closing(BucketedRows(places, files.bytes, limit, folder)) as buckets:
        rows = buckets.fill(sources)
        chunks = _cut(buckets.in_order(), rows)
        for target, source, count in zip(targets, sources, rows, strict=True):
            with writing.file(target) as file:
                file.write(source.prefix)
                written = 0
                while written < count:
                    chunk = next(chunks)
                    file.writelines(chunk)
                    written += len(chunk)
        return rows, buckets.count


def _cut(parts: Iterable[list[memoryview]], rows: list[int]) -> Iterator[list[memoryview]]:
    """The same rows in chunks that end where a file does."""
    left = list(rows)
    for part in parts:
        start = 0
        while start < len(part):
            while not left[0]:
                left.pop(0)
            count = min(_WRITE_ROWS, left[0], len(part) - start)
            yield part[start : start + count]
            left[0] -= count
            start += count


def _reorder_tables(
    files: DataFiles, places: Places, targets: list[Path], limit: int, folder: Path
) -> tuple[list[int], int]:
    from gcbs_cli.apply.table_rows import BucketedTables, ParquetFiles

    data = ParquetFiles(files.stamps)
    if sum(data.rows) != places.rows:
        raise BadInput(f"the data has {sum(data.rows):,} rows, the plan {places.rows:,}; was it made for other data?")
    with closing(BucketedTables(data, places, limit, folder)) as buckets:
        buckets.fill()
        _write_tables(data, buckets, targets)
        return data.rows, buckets.count


def _write_tables(data: "ParquetFiles", buckets: "BucketedTables", targets: list[Path]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = buckets.in_order()
    rest = data.schema.empty_table()
    for target, count in zip(targets, data.rows, strict=True):
        with writing.file(target) as file, pq.ParquetWriter(file, data.schema, compression=data.compression) as writer:
            while count:
                want = min(count, data.group_rows)
                while rest.num_rows < want:
                    rest = pa.concat_tables([rest, next(tables)])
                writer.write_table(rest.slice(0, want).unify_dictionaries(), row_group_size=want)
                rest, count = rest.slice(want), count - want


def data_rows_hint(files: DataFiles) -> str:
    """The files in the order in which their rows count."""
    names = [os.path.basename(stamp.path) for stamp in files.stamps]
    return ", ".join(names[:12]) + (f", … ({len(names)} files)" if len(names) > 12 else "")
