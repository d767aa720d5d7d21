"""What a plan in parts keeps on disk: the rows in the order of their parts, and plans of finished parts (`--work-dir`):
a run that was killed plans only the others.
"""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import numpy as np
import xxhash

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.reading import PairStream
from gcbs_cli.plan_file.writing import explained, temporary_folder
from gcbs_cli.planning.parts.part import PartPlan, ReadPart
from gcbs_cli.planning.parts.partition import Partition
from gcbs_cli.system.arrays import inverse
from gcbs_cli.system.errors import BadInput, GcbsError
from gcbs_cli.system.limits import show_size
from gcbs_cli.system.progress import Progress

FILE = "gcbs-parts.jsonl"
"""A plan a line; whatever else lies in the folder is left alone."""
FLOAT32_BYTES = 4


class KeptParts:
    """Part plans in a file. A line begins with a hash of the run and of its plan, so that a part of another run, or
    with a damaged byte, is planned again.
    """

    def __init__(self, folder: Path | None, key: str, progress: Progress) -> None:
        """Make the folder if need be and read the parts of the run with this `key`; no folder keeps nothing.

        Raises BadInput.
        """
        self.parts: dict[int, PartPlan] = {}
        self._path: Path | None = None
        if folder is None:
            return
        self._path, self._key, self._progress = folder / FILE, key.encode(), progress
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            lines = self._path.read_bytes().split(b"\n") if self._path.exists() else []
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BadInput(f"--work-dir {folder}: cannot be used ({reason}); name one that can be created") from error
        for line in lines:
            digest, _, plan = line.partition(b" ")
            if digest == self._digest(plan):
                record = json.loads(plan)
                self.parts[record["number"]] = PartPlan(**record | {"order": np.array(record["order"], np.int64)})
        if lines and not self.parts:
            progress.note(f"--work-dir {folder}: holds parts of other data or settings; starting over")
            self._path.unlink()

    def save(self, part: PartPlan) -> None:
        """Keep the plan of a part. A disk that does not take it is said once; the work goes on without."""
        self.parts[part.number] = part
        if self._path is None:
            return
        plan = json.dumps(asdict(part) | {"order": part.order.tolist()}).encode()
        try:
            with explained(self._path), self._path.open("ab") as file:
                # What a kill left of a line ends at the line break.
                file.write(b"\n" + self._digest(plan) + b" " + plan)
                file.flush()
                os.fsync(file.fileno())
        except GcbsError as error:
            self._path = None
            self._progress.note(f"{error}; continuing without --work-dir")

    def _digest(self, plan: bytes) -> bytes:
        return xxhash.xxh3_128_hexdigest(self._key + plan).encode()


def clear(folder: Path) -> None:
    """Remove what gcbs has put into a --work-dir, and the folder if it is empty then: the plan is saved."""
    with suppress(OSError):
        (folder / FILE).unlink()
        folder.rmdir()


@contextmanager
def scattered(stream: PairStream, partition: Partition, beside: Path | None) -> Iterator[ReadPart]:
    """One pass that writes all rows, x before y, to a file in a folder beside `beside`, or in the temporary one, gone
    when the block ends.

    Gives the function that reads the unit rows of a part. Raises BadInput where the disk has no room for 8 · N · d
    bytes.
    """
    row_bytes = stream.dim * FLOAT32_BYTES
    needed = 2 * stream.rows * row_bytes
    with temporary_folder(beside or Path(tempfile.gettempdir()) / "gcbs-plan") as folder:
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise BadInput(
                f"--partitions: a temporary copy of the rows beside the output needs {show_size(needed)}, and "
                f"{show_size(free)} are free in {folder.parent}; write to a larger disk"
            )
        path = folder / "rows.f32"
        with explained(folder), path.open("wb") as file:
            _write(stream, partition, file)

        def read(part: int) -> PairedRows:
            first, stop = partition.starts[part : part + 2].tolist()
            sides = np.empty((2, stop - first, stream.dim), np.float32)
            with explained(folder), path.open("rb") as file:
                for number, side in enumerate(sides):
                    file.seek((number * stream.rows + first) * row_bytes)
                    if file.readinto(side.data) != side.nbytes:
                        raise OSError(errno.EIO, "a temporary file was cut short")
            return PairedRows(*sides)

        yield read


def _write(stream: PairStream, partition: Partition, file: BinaryIO) -> None:
    places = inverse(partition.members)
    for start, *sides in stream.blocks():
        to = places[start : start + len(sides[0])]
        order = np.argsort(to)
        # Rows of one part that come together in the data lie together in the file.
        for rows in np.split(order, np.flatnonzero(np.diff(to[order]) != 1) + 1):
            for number, side in enumerate(sides):
                file.seek((number * stream.rows + int(to[rows[0]])) * side[0].nbytes)
                file.write(side[rows].data)
