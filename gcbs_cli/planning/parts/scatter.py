"""Unit rows in the order of their parts, in two files: a part is then one piece of each."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.reading import PairStream
from gcbs_cli.plan_file.writing import temporary_folder, write_error
from gcbs_cli.planning.parts.partition import Partition
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import show_size

FLOAT32_BYTES = 4


@dataclass(frozen=True)
class ScatteredRows:
    """Two files of float32 unit rows (N, dim), the parts one after the other."""

    x: Path
    y: Path
    dim: int
    starts: NDArray[np.int64]

    def read(self, part: int) -> PairedRows:
        """The unit rows of a part. Raises OSError and ValueError where the files are not there, or not whole."""
        first, stop = (int(bound) for bound in self.starts[part : part + 2])
        sides = []
        for path in (self.x, self.y):
            count = (stop - first) * self.dim
            values = np.fromfile(path, np.float32, count, offset=first * self.dim * FLOAT32_BYTES)
            sides.append(values.reshape(stop - first, self.dim))
        return PairedRows(*sides)


@contextmanager
def scattered(stream: PairStream, partition: Partition, beside: Path | None) -> Iterator[ScatteredRows]:
    """One pass that writes both files into a folder beside `beside`, or in the temporary one, gone when the block ends.

    Raises BadInput where the disk has no room for 8 · N · d bytes.
    """
    needed = 2 * stream.rows * stream.dim * FLOAT32_BYTES
    with temporary_folder(beside or Path(tempfile.gettempdir()) / "gcbs-plan") as folder:
        free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        if needed > free:
            raise BadInput(
                f"--partitions: the rows in the order of their parts take {show_size(needed)} beside the output for "
                f"the time of the run, and {show_size(free)} are free in {folder.parent}; write to a larger disk"
            )
        # Absolute, for tasks that read them from another working folder.
        x, y = (folder.absolute() / f"{side}.f32" for side in "xy")
        rows = ScatteredRows(x, y, stream.dim, partition.starts)
        try:
            _write(stream, partition, rows)
        except OSError as error:
            raise write_error(folder, error) from error
        yield rows


def _write(stream: PairStream, partition: Partition, rows: ScatteredRows) -> None:
    labels = partition.part_of_row()
    cursors = partition.starts[:-1].copy()
    with rows.x.open("wb", buffering=0) as x_file, rows.y.open("wb", buffering=0) as y_file:
        for start, x, y in stream.blocks():
            some = labels[start : start + len(x)]
            order = np.argsort(some, kind="stable")
            parts, firsts, counts = np.unique(some[order], return_index=True, return_counts=True)
            x, y = x[order], y[order]
            for part, first, count in zip(parts.tolist(), firsts.tolist(), counts.tolist(), strict=True):
                offset = int(cursors[part]) * stream.dim * FLOAT32_BYTES
                for file, side in ((x_file, x), (y_file, y)):
                    _write_at(file.fileno(), side[first : first + count], offset)
                cursors[part] += count


def _write_at(descriptor: int, rows: NDArray[np.float32], offset: int) -> None:
    rest = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
    while rest:
        done = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[done:], offset + done
