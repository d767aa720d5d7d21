"""The plans of finished parts, kept in a folder (`--work-dir`), so that a run that was killed plans only the others."""

import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
import xxhash

from gcbs_cli.plan_file.writing import explained
from gcbs_cli.planning.parts.part import PartPlan
from gcbs_cli.system.errors import BadInput, GcbsError
from gcbs_cli.system.progress import Progress

FILE = "gcbs-parts.jsonl"
"""A plan a line; whatever else lies in the folder is left alone."""


class KeptParts:
    """Part plans in a file. A line begins with a hash of the run and of its plan, so that a part of another run, or
    with a damaged byte, is planned again.
    """

    def __init__(self, folder: Path, key: str, progress: Progress) -> None:
        """Make the folder if need be and read the parts of the run with this `key`. Raises BadInput."""
        self._path, self._key, self._progress, self._works = folder / FILE, key.encode(), progress, True
        self.parts: dict[int, PartPlan] = {}
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            lines = self._path.read_bytes().split(b"\n") if self._path.exists() else []
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BadInput(f"--work-dir {folder}: cannot be used ({reason}); name a folder that can be made") from error
        for line in lines:
            digest, _, plan = line.partition(b" ")
            if digest == self._digest(plan):
                record = json.loads(plan)
                self.parts[record["number"]] = PartPlan(**record | {"order": np.array(record["order"], np.int64)})
        if lines and not self.parts:
            progress.note(f"--work-dir {folder}: what is there is of other data or settings; starting anew")
            self._path.unlink()

    def save(self, part: PartPlan) -> None:
        """Keep the plan of a part. A disk that does not take it is said once; the work goes on without."""
        plan = json.dumps(asdict(part) | {"order": part.order.tolist()}).encode()
        try:
            if self._works:
                with explained(self._path), self._path.open("ab") as file:
                    # What a kill left of a line ends at the line break.
                    file.write(b"\n" + self._digest(plan) + b" " + plan)
                    file.flush()
                    os.fsync(file.fileno())
        except GcbsError as error:
            self._works = False
            self._progress.note(f"{error}; going on without --work-dir")

    def _digest(self, plan: bytes) -> bytes:
        return xxhash.xxh3_128_hexdigest(self._key + plan).encode()


def clear(folder: Path) -> None:
    """Remove what gcbs has put into a --work-dir, and the folder if it is empty then: the plan is saved."""
    with suppress(OSError):
        (folder / FILE).unlink()
        folder.rmdir()
