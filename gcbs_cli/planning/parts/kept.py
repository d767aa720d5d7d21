"""The plans of finished parts, kept in a folder (`--work-dir`), so that a run that was killed plans only the others."""

import json
import re
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
import xxhash

from gcbs_cli.plan_file.writing import write
from gcbs_cli.planning.engines.part import PartPlan
from gcbs_cli.system.errors import BadInput, GcbsError
from gcbs_cli.system.progress import Progress

OURS = re.compile(r"\.?part-([0-9a-f]{16})-\d{5}-[0-9a-f]{32}\.json(\.[0-9a-f]+\.gcbs-tmp)?")
"""Names of the files that gcbs makes there, temporary ones included; all others are left alone."""


class KeptParts:
    """A folder of part plans. A file's name has the hash of the run and of its content, so that a part of another run,
    or with a damaged byte, is planned again.
    """

    def __init__(self, folder: Path, key: str, watcher: Progress) -> None:
        """Make the folder if need be and remove the parts of runs with another `key`. Raises BadInput."""
        self._folder, self._watcher, self._works = folder, watcher, True
        self._run = xxhash.xxh3_64_hexdigest(key.encode())
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            others = [path for path, run in _files(folder) if run != self._run]
            for path in others:
                path.unlink()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BadInput(f"--work-dir {folder}: cannot be used ({reason}); name a folder that can be made") from error
        if others:
            watcher.note(f"--work-dir {folder}: what is there is of other data or settings; starting anew")

    def load(self, number: int) -> PartPlan | None:
        """The plan of a part; None where there is none, or none that is whole."""
        for path in self._folder.glob(f"part-{self._run}-{number:05d}-*.json"):
            with suppress(OSError, ValueError):
                data = path.read_bytes()
                record = json.loads(data)
                if path.name == self._name(number, data) and record["number"] == number:
                    return PartPlan(**record | {"order": np.array(record["order"], np.int64)})
        return None

    def save(self, part: PartPlan) -> None:
        """Keep the plan of a part. A disk that does not take it is said once; the work goes on without."""
        data = json.dumps(asdict(part) | {"order": part.order.tolist()}).encode()
        try:
            if self._works:
                write(self._folder / self._name(part.number, data), data.decode())
        except GcbsError as error:
            self._works = False
            self._watcher.note(f"{error}; going on without --work-dir")

    def _name(self, number: int, data: bytes) -> str:
        return f"part-{self._run}-{number:05d}-{xxhash.xxh3_128_hexdigest(data)}.json"


def clear(folder: Path) -> None:
    """Remove what gcbs has put into a --work-dir, and the folder if it is empty then: the plan is saved."""
    with suppress(OSError):
        for path, _ in _files(folder):
            path.unlink()
        folder.rmdir()


def _files(folder: Path) -> list[tuple[Path, str]]:
    """The files of all runs, each with the hash of its run."""
    found = [(path, OURS.fullmatch(path.name)) for path in folder.iterdir()]
    return [(path, match[1]) for path, match in found if match]
