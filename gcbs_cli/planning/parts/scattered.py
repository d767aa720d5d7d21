"""A copy of the rows on disk, a file for each part, so that those of one part can be read alone."""

import shutil
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
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import show_size

BYTES_PER_COORDINATE = 8
"""Of x and y, in float32."""


@contextmanager
def scattered(stream: PairStream, partition: Partition, beside: Path | None) -> Iterator[ReadPart]:
    """One pass that writes all rows to a folder beside `beside`, or in the temporary one, gone when the block ends.

    Gives the function that reads the unit rows of a part. Raises BadInput where the disk has no room for them.
    """
    part_of_row = np.empty(stream.rows, np.int16)
    for part, rows in enumerate(partition):
        part_of_row[rows] = part
    with temporary_folder(beside or Path(tempfile.gettempdir()) / "gcbs-plan") as folder:
        size = BYTES_PER_COORDINATE * stream.rows * stream.dim
        free = shutil.disk_usage(folder).free
        if size > free:
            raise BadInput(
                f"--partitions: a temporary copy of the rows beside the output needs {show_size(size)}, and "
                f"{show_size(free)} are free in {folder.parent}; write to a larger disk"
            )
        with explained(folder):
            for start, *sides in stream.blocks():
                block = np.stack(sides, axis=1)
                parts = part_of_row[start : start + len(block)]
                for part in np.unique(parts):
                    with (folder / str(part)).open("ab") as file:
                        file.write(block[parts == part].data)

        def read(part: int) -> PairedRows:
            with explained(folder):
                block = np.frombuffer((folder / str(part)).read_bytes(), np.float32)
            x, y = block.reshape(-1, 2, stream.dim).swapaxes(0, 1)
            return PairedRows(x.copy(), y.copy())

        yield read
