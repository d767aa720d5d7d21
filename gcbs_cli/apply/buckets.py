"""Reorder rows of bytes with bounded memory: deal them to buckets of consecutive places, then sort each bucket.

Both passes read and write in sequence, so that data far larger than memory moves at the disk's speed. Twenty bytes a
row stay in memory, for the plan and the rows' lengths.
"""

import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.apply.byte_rows import ByteRows, RowBlock
from gcbs_cli.apply.places import Places
from gcbs_cli.system.errors import BadInput

MOST_BUCKETS = 256
"""Open files at once; a bucket that is too large for memory is then gathered row by row."""


class BucketedRows:
    """Rows of bytes on their way to plan order. `limit`: bytes of rows in memory at once."""

    def __init__(self, places: Places, total_bytes: int, limit: int, folder: Path) -> None:
        self._places, self._limit = places, limit
        count = min(MOST_BUCKETS, max(1, -(-total_bytes // limit)), places.rows)
        self._rows_each = -(-places.rows // count)
        count = -(-places.rows // self._rows_each)
        self._files: list[BinaryIO] = [
            io.BytesIO() if count == 1 else tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
            for _ in range(count)
        ]
        self._lengths = np.zeros(places.rows, np.int64)

    @property
    def count(self) -> int:
        """How many buckets there are; one is held in memory, more are files without a name."""
        return len(self._files)

    def close(self) -> None:
        """Give the buckets back."""
        for file in self._files:
            file.close()

    def fill(self, sources: Sequence[ByteRows]) -> list[int]:
        """Read all rows; returns how many each source has. Raises BadInput when the plan has more or fewer."""
        counts, row = [], 0
        for source in sources:
            first = row
            for block in source.blocks():
                row = self._add(block, row, source.stamp.shown)
            counts.append(row - first)
        if row < self._places.rows:
            raise BadInput(f"the data has {row:,} rows, the plan {self._places.rows:,}; was it made for other data?")
        return counts

    def _add(self, block: RowBlock, first: int, name: str) -> int:
        stop = first + len(block.bounds) - 1
        if stop > self._places.rows:
            raise BadInput(f"{name}: the data has more rows than the plan ({self._places.rows:,}); plan for all of it")
        self._lengths[first:stop] = np.diff(block.bounds)
        if self.count == 1:
            self._files[0].write(block.data[block.bounds[0] : block.bounds[-1]])
            return stop
        bucket = self._places.of_rows(first, stop) // self._rows_each
        order = np.argsort(bucket, kind="stable")
        edges = np.searchsorted(bucket[order], np.arange(self.count + 1))
        view, bounds = memoryview(block.data), block.bounds.tolist()
        for number, (start, end) in enumerate(pairwise(edges.tolist())):
            if start < end:
                rows = order[start:end].tolist()
                _write_all(self._files[number], b"".join([view[bounds[row] : bounds[row + 1]] for row in rows]))
        return stop

    def in_order(self) -> Iterator[list[memoryview]]:
        """All rows in plan order, some at a time."""
        for number, file in enumerate(self._files):
            start = number * self._rows_each
            wanted = self._places.rows_at(start, start + self._rows_each)
            arrived = np.argsort(wanted)  # a bucket holds its rows in the order of the data
            lengths = self._lengths[wanted[arrived]]
            ends = np.cumsum(lengths)
            offset = np.empty(len(wanted), np.int64)
            offset[arrived] = ends - lengths
            yield from self._sorted(file, offset, self._lengths[wanted], int(ends[-1]))

    def _sorted(
        self, file: BinaryIO, offset: NDArray[np.int64], length: NDArray[np.int64], size: int
    ) -> Iterator[list[memoryview]]:
        if isinstance(file, io.BytesIO):
            yield _slices(memoryview(file.getvalue()), offset, length)
        elif size <= 2 * self._limit:
            data = bytearray(size)
            _read_all(file, memoryview(data), 0)
            yield _slices(memoryview(data), offset, length)
        else:
            yield from self._gathered(file, offset, length)

    def _gathered(
        self, file: BinaryIO, offset: NDArray[np.int64], length: NDArray[np.int64]
    ) -> Iterator[list[memoryview]]:
        """Windows of rows that fit into memory, each read in the order of the file."""
        window = np.cumsum(length) // self._limit
        for part in np.split(np.arange(len(offset)), np.flatnonzero(np.diff(window)) + 1):
            rows: list[memoryview] = [memoryview(b"")] * len(part)
            for place in np.argsort(offset[part]).tolist():
                row = bytearray(int(length[part[place]]))
                _read_all(file, memoryview(row), int(offset[part[place]]))
                rows[place] = memoryview(row)
            yield rows


def _slices(data: memoryview, offset: NDArray[np.int64], length: NDArray[np.int64]) -> list[memoryview]:
    return [data[start:end] for start, end in zip(offset.tolist(), (offset + length).tolist(), strict=True)]


def _write_all(file: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _read_all(file: BinaryIO, into: memoryview, offset: int) -> None:
    while into:
        count = os.preadv(file.fileno(), [into[: 1 << 30]], offset)
        if count == 0:
            raise BadInput("a temporary file became shorter; is the disk full?")
        into, offset = into[count:], offset + count
