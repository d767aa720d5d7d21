"""A copy of the rows on disk in the order of their parts, so that those of one part can be read alone."""

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

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
    """One pass that writes all rows, x before y, to a file in a folder beside `beside`, or in the temporary one, gone
    when the block ends.

    Gives the function that reads the unit rows of a part. Raises BadInput where the disk has no room for 8 · N · d
    bytes.
    """
    row_bytes = stream.dim * FLOAT32_BYTES
    file_bytes = 2 * stream.rows * row_bytes
    with temporary_folder(beside or Path(tempfile.gettempdir()) / "gcbs-plan") as folder:
        free = shutil.disk_usage(folder).free
        if file_bytes > free:
            raise BadInput(
                f"--partitions: a temporary copy of the rows beside the output needs {show_size(file_bytes)}, and "
                f"{show_size(free)} are free in {folder.parent}; write to a larger disk"
            )
        path = folder / "rows.f32"
        with explained(folder), path.open("wb") as file:
            _write(stream, partition, file)

        def read(part: int) -> PairedRows:
            first = sum(map(len, partition[:part]))
            sides = np.empty((2, len(partition[part]), stream.dim), np.float32)
            with explained(folder), path.open("rb") as file:
                for number, side in enumerate(sides):
                    file.seek((number * stream.rows + first) * row_bytes)
                    if file.readinto(side.data) != side.nbytes:
                        raise OSError(errno.EIO, "a temporary file was cut short")
            return PairedRows(*sides)

        yield read


def _write(stream: PairStream, partition: Partition, file: BinaryIO) -> None:
    row_in_file = inverse(np.concatenate(partition))
    for start, *sides in stream.blocks():
        targets = row_in_file[start : start + len(sides[0])]
        order = np.argsort(targets)
        # Rows of one part that come together in the data lie together in the file: one write for each run of them.
        run_starts = np.flatnonzero(np.diff(targets[order]) != 1) + 1
        for rows in np.split(order, run_starts):
            for number, side in enumerate(sides):
                file.seek((number * stream.rows + int(targets[rows[0]])) * side[0].nbytes)
                file.write(side[rows].data)
