"""What a pass has found so far, kept in a folder (`--work-dir`), so that a killed run can go on where it was.

A block is a few tiles' results, in a file whose name ends in the hash of the run and its content: a block of another
run, of other settings or with a damaged byte does not match its name, and is done again.
"""

import fcntl
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from gcbs_cli import __version__
from gcbs_cli.plan_file.writing import write, write_error
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.errors import BadInput, GcbsError
from gcbs_cli.system.limits import show_size
from gcbs_cli.system.progress import Progress

if TYPE_CHECKING:
    from gcbs_cli.settings.report import ReportSettings

FORMAT = 2
"""Of the files in the folder; those of another format are done again."""
OURS = re.compile(
    r"\.?(block-([a-z]+-)?\d{5}-[0-9a-f]{32}\.npy|value-[a-z]+-[0-9a-f]{32}\.json)(\.\d+\.[0-9a-f]+\.gcbs-tmp)?"
)
"""Names of the files that gcbs makes there, temporary ones included; all others are left alone."""
SPARE_BYTES = 1 << 20
HOW_ONLY = ("device", "tile_rows", "max_memory", "max_edges")
"""Settings that change how the work is done and never what it finds."""


class Checkpoints:
    """The folder of one run. `key`: what decides the run's result; other runs' files are removed when it is opened."""

    def __init__(self, folder: Path, key: str, watcher: Progress | None = None) -> None:
        """Open and lock the folder, making it if need be.

        Raises BadInput when it cannot be used, or when another run is using it.
        """
        self.folder = folder
        self._key = key
        self._watcher = watcher or Progress()
        self._works = True
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BadInput(f"--work-dir {folder}: cannot be used ({reason}); name a folder that can be made") from error
        try:
            self._lock()
            if not os.access(folder, os.W_OK | os.X_OK):
                raise BadInput(f"--work-dir {folder}: is not writable; name another folder")
            self._remove_of_other_runs()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Unlock the folder and leave what is in it for the next run."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def clear(self) -> None:
        """Remove what gcbs has put there, and the folder if it is empty then: the plan is saved."""
        for name in self._names():
            with suppress(OSError):
                os.unlink(self.folder / name)
        with suppress(OSError):
            os.rmdir(self.folder)

    def check_room(self, size: int) -> None:
        """Raises BadInput when the disk cannot hold `size` bytes of blocks beside those that are there."""
        held = sum(self._size(name) for name in self._names())
        free = shutil.disk_usage(self.folder).free
        if size > free + held - SPARE_BYTES:
            raise BadInput(
                f"--work-dir {self.folder}: the pass would leave about {show_size(size)} there, and "
                f"{show_size(max(0, free))} are free; name a folder on a larger disk or leave it out"
            )

    def value(self, name: str, find: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A few numbers, found once: from the folder, or from `find`, whose result is kept."""
        for path in sorted(self.folder.glob(f"value-{name}-*.json")):
            data = self._read(path, name)
            if data is not None:
                return dict(json.loads(data))
        found = find()
        data = json.dumps(found).encode()
        self._write(self.folder / f"value-{name}-{self._hash(name, data)}.json", data)
        return found

    def load(self, stage: str, number: int, block: str) -> list[NDArray[Any]] | None:
        """The arrays of a block; None when there is none whose content matches its name."""
        for path in sorted(self.folder.glob(f"block-{stage}-{number:05d}-*.npy")):
            data = self._read(path, f"{stage} {number} {block}")
            if data is not None:
                return _arrays(data)
        return None

    def save(self, stage: str, number: int, block: str, arrays: Sequence[NDArray[Any]]) -> None:
        """Keep the arrays of a block. A disk that does not take them is said once; the work goes on without."""
        if not self._works:
            return
        file = io.BytesIO()
        for array in arrays:
            np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
        data = file.getvalue()
        hashed = self._hash(f"{stage} {number} {block}", data)
        self._write(self.folder / f"block-{stage}-{number:05d}-{hashed}.npy", data)

    def _write(self, path: Path, data: bytes) -> None:
        try:
            write(path, lambda file: file.write(data))
        except GcbsError as error:
            self._works = False
            self._watcher.note(f"{error}; going on without checkpoints")

    def _read(self, path: Path, label: str) -> bytes | None:
        """The content if it matches the name; a file that does not is removed."""
        try:
            data = path.read_bytes()
            if path.stem.rsplit("-", 1)[1] == self._hash(label, data):
                return data
            path.unlink()
        except OSError:
            pass
        return None

    def _hash(self, label: str, data: bytes) -> str:
        digest = xxhash.xxh3_128(f"{self._key} {label} {len(data)} ".encode())
        digest.update(data)
        return digest.hexdigest()

    def _remove_of_other_runs(self) -> None:
        """One folder holds one run's blocks, so that the disk it takes is bounded."""
        marker = self.folder / f"value-run-{xxhash.xxh3_128_hexdigest(self._key.encode())}.json"
        names = self._names()
        if marker.name not in names:
            if names:
                self._watcher.note(
                    f"--work-dir {self.folder}: what is there is of other data or settings; starting anew"
                )
            for name in names:
                with suppress(OSError):
                    os.unlink(self.folder / name)
            try:
                write(marker, "{}")
            except GcbsError as error:
                raise BadInput(f"--work-dir {self.folder}: {error}") from error

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadInput(f"--work-dir {self.folder}: another run is using it; name another folder") from error
        except OSError:  # file systems without locks on folders
            return

    def _names(self) -> list[str]:
        try:
            return [name for name in os.listdir(self.folder) if OURS.fullmatch(name)]
        except OSError as error:
            raise write_error(self.folder, error) from error

    def _size(self, name: str) -> int:
        try:
            return os.stat(self.folder / name).st_size
        except OSError:
            return 0


def run_key(
    x_fingerprint: str, y_fingerprint: str, settings: "PlanSettings | ReportSettings", *, normalize: bool | str
) -> str:
    """What decides the results of a pass: the data, how they are normalised, the settings, and the version of gcbs."""
    decisive = {name: value for name, value in asdict(settings).items() if name not in HOW_ONLY}
    parts = [FORMAT, __version__, x_fingerprint, y_fingerprint, normalize, decisive]
    return json.dumps(parts, sort_keys=True, default=_shown)


def _shown(value: object) -> str:
    """A setting that JSON has no word for: arrays by their content."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {xxhash.xxh3_128_hexdigest(value.tobytes())}"
    return repr(value)


def _arrays(data: bytes) -> list[NDArray[Any]]:
    file = io.BytesIO(data)
    found = []
    while file.tell() < len(data):
        found.append(np.lib.format.read_array(file, allow_pickle=False))
    return found
