"""Write data in plan order: read in sequence, bounded in memory, whole or not at all."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.apply.buckets import MOST_BUCKETS, Buckets
from gcbs_cli.apply.byte_rows import BucketedRows, ByteRows, open_lines, open_npy_rows
from gcbs_cli.apply.files import DataFiles, atomic_targets
from gcbs_cli.plan_file import writing
from gcbs_cli.system.errors import BadInput

DEFAULT_MEMORY: Final = 1 << 29
"""Bytes of rows and working copies in memory at once, where nothing was said."""
_COPIES: Final = 4
"""A bucket, its sorted views, the block being read and the block being written."""
_WRITE_ROWS: Final = 1 << 13


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
    Raises BadInput when the data has more or fewer rows than the plan, or is damaged.
    """
    limit = max(2, memory // _COPIES)
    with atomic_targets(files, output) as targets:
        if files.kind == "parquet":
            from gcbs_cli.apply.table_rows import reorder_tables

            rows, buckets = reorder_tables(files.stamps, perm, targets, limit, output.parent, most_buckets)
        else:
            with closing(Buckets(perm, files.bytes, limit, output.parent, most_buckets)) as temporary:
                rows = _reorder_bytes(_sources(files, header), BucketedRows(temporary, limit), targets)
                buckets = len(temporary.files)
    return Reordered([output] if files.single else [output / target.name for target in targets], rows, buckets)


def _sources(files: DataFiles, header: bool) -> Sequence[ByteRows]:
    quoted = files.kind == "csv"
    if files.kind == "npy":
        sources = [open_npy_rows(stamp) for stamp in files.stamps]
    else:
        sources = [open_lines(stamp, quoted=quoted, header=quoted and header) for stamp in files.stamps]
    for source in sources[1:]:
        if source.layout != sources[0].layout:
            what = "its header differs from that" if quoted else "its rows differ in shape or type from those"
            raise BadInput(f"{source.stamp.shown}: {what} of {sources[0].stamp.shown}")
    return sources


def _reorder_bytes(sources: Sequence[ByteRows], rows: BucketedRows, targets: Sequence[Path]) -> list[int]:
    counts = rows.fill(sources)
    pieces = _cut(rows.in_order(), counts)
    for target, source, count in zip(targets, sources, counts, strict=True):
        with writing.file(target) as file:
            file.write(source.prefix)
            written = 0
            while written < count:
                piece = next(pieces)
                file.writelines(piece)
                written += len(piece)
    return counts


def _cut(parts: Iterable[list[memoryview]], counts: Sequence[int]) -> Iterator[list[memoryview]]:
    """Yield the same rows in pieces that end where a file does."""
    left = [count for count in counts if count]
    for part in parts:
        start = 0
        while start < len(part):
            count = min(_WRITE_ROWS, left[0], len(part) - start)
            yield part[start : start + count]
            start += count
            left[0] -= count
            if not left[0]:
                left.pop(0)
