"""Temporary files on the way to plan order: rows are dealt to buckets of consecutive places, then each is sorted.

Both passes read and write in sequence, so that data far larger than memory moves at the disk's speed. Rows come to a
bucket in the order of the data, so where each lies in it follows from the plan.
"""

import io
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.system.arrays import inverse
from gcbs_cli.system.errors import BadInput

MOST_BUCKETS: Final = 256
"""Open files at once; a bucket that is too large for memory is then sorted piece by piece."""


class Buckets:
    """One file for each run of places; a single one is held in memory, more are files without a name.

    limit: bytes of rows in memory at once; folder: where the files lie.
    """

    def __init__(self, perm: NDArray[np.int64], total: float, limit: int, folder: Path, most: int) -> None:
        self.rows = len(perm)
        self._perm, self._places = perm, inverse(perm)
        count = int(min(most, max(1, -(-total // limit)), self.rows))
        self._rows_each = -(-self.rows // count)
        count = -(-self.rows // self._rows_each)
        self.files: list[BinaryIO] = [
            io.BytesIO() if count == 1 else tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
            for _ in range(count)
        ]

    def close(self) -> None:
        """Give the files back."""
        for file in self.files:
            file.close()

    def deal(self, first: int, count: int, name: str) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield each bucket that takes some of the rows from `first` on, and which of them, counted from 0.

        Raises BadInput, naming the file, for more rows than the plan has.
        """
        if first + count > self.rows:
            raise BadInput(f"{name}: the data has more rows than the plan ({self.rows:,}); plan for all of it")
        bucket = self._places[first : first + count] // self._rows_each
        order = np.argsort(bucket, kind="stable")
        edges = np.searchsorted(bucket[order], np.arange(len(self.files) + 1))
        for number, (start, end) in enumerate(pairwise(edges.tolist())):
            if start < end:
                yield number, order[start:end]

    def check_filled(self, rows: int) -> None:
        """Raise BadInput unless the data had as many rows as the plan."""
        if rows != self.rows:
            raise BadInput(f"the data has {rows:,} rows, the plan {self.rows:,}; was it made for other data?")

    def wanted(self, number: int) -> NDArray[np.int64]:
        """Return the rows of a bucket in plan order; they lie in it in rising order."""
        return self._perm[number * self._rows_each : (number + 1) * self._rows_each]
