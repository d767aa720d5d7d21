"""Unit rows in the order of their parts, in two files: a part is then one piece of each."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.reading import PairStream
from gcbs_cli.plan_file.writing import explained, temporary_folder
from gcbs_cli.planning.parts.part import ReadPart
from gcbs_cli.planning.parts.partition import Partition
from gcbs_cli.system.arrays import inverse
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import show_size

FLOAT32_BYTES = 4


@contextmanager
def scattered(stream: PairStream, partition: Partition, beside: Path | None) -> Iterator[ReadPart]:
    """One pass that writes both files into a folder beside `beside`, or in the temporary one, gone when the block ends.

    Gives the function that reads the unit rows of a part. Raises BadInput where the disk has no room for 8 · N · d
    bytes.
    """
    row_bytes = stream.dim * FLOAT32_BYTES
    needed = 2 * stream.rows * row_bytes
    with temporary_folder(beside or Path(tempfile.gettempdir()) / "gcbs-plan") as folder:
        free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        if needed > free:
            raise BadInput(
                f"--partitions: the rows in the order of their parts take {show_size(needed)} beside the output for "
                f"the time of the run, and {show_size(free)} are free in {folder.parent}; write to a larger disk"
            )
        paths = folder / "x.f32", folder / "y.f32"
        with explained(folder):
            _write(stream, partition, paths, row_bytes)

        def read(part: int) -> PairedRows:
            first, stop = (int(bound) for bound in partition.starts[part : part + 2])
            sides = np.empty((2, stop - first, stream.dim), np.float32)
            for path, side in zip(paths, sides, strict=True):
                with explained(folder), path.open("rb") as file:
                    file.seek(first * row_bytes)
                    if file.readinto(side.data) != side.nbytes:
                        raise OSError(errno.EIO, "a temporary file was cut short")
            return PairedRows(*sides)

        yield read


def _write(stream: PairStream, partition: Partition, paths: tuple[Path, Path], row_bytes: int) -> None:
    places = inverse(partition.members)
    with paths[0].open("wb") as x_file, paths[1].open("wb") as y_file:
        for start, x, y in stream.blocks():
            to = places[start : start + len(x)]
            order = np.argsort(to)
            # Rows of one part that come together in the data lie together in the files.
            for rows in np.split(order, np.flatnonzero(np.diff(to[order]) != 1) + 1):
                for file, side in ((x_file, x), (y_file, y)):
                    file.seek(int(to[rows[0]]) * row_bytes)
                    file.write(side[rows].data)
