"""Which files are reordered, and where the result goes."""

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from gcbs_cli.data.files import FileStamp, list_files, shown, stamp_file
from gcbs_cli.plan_file import writing
from gcbs_cli.plan_file.writing import PathLike
from gcbs_cli.system.errors import BadInput

KINDS = {".npy": "npy", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "csv"}
KINDS |= {".parquet": "parquet", ".tar": "tar"}


@dataclass(frozen=True)
class DataFiles:
    """Files of one kind, in the order in which their rows count; `single`: one file was named."""

    stamps: list[FileStamp]
    single: bool

    @property
    def kind(self) -> str:
        """One of the KINDS."""
        return KINDS[self.stamps[0].suffix]

    def targets(self, path: Path) -> list[Path]:
        """What is written for each: `path` itself for the one file that was named, else files of `path`, a folder."""
        return [path] if self.single else [path / os.path.basename(stamp.path) for stamp in self.stamps]

    def place(self, path: Path) -> AbstractContextManager[Path]:
        """Where the targets lie until all are written: a single file is whole by itself, a folder is renamed."""
        return nullcontext(path) if self.single else writing.folder(path)


def find_files(data: str) -> DataFiles:
    """The files of a path, a folder or a glob pattern, in natural order (part-2 before part-10).

    Raises BadInput: nothing there, an unknown or mixed kind.
    """
    paths = list_files(data)
    stamps = [stamp_file(path) for path in paths]
    suffixes = sorted({stamp.suffix for stamp in stamps})
    if len({KINDS.get(suffix, suffix) for suffix in suffixes}) > 1 or suffixes[0] not in KINDS:
        names = ", ".join(suffix or "no suffix" for suffix in suffixes)
        raise BadInput(f"{shown(data)}: found {names}; expected files of one kind: {', '.join(KINDS)}")
    if len({os.path.basename(path) for path in paths}) < len(paths):
        raise BadInput(f"{shown(data)}: two files have the same name; they would overwrite each other in one folder")
    return DataFiles(stamps, paths == [data])


def output_path(files: DataFiles, output: str, inputs: Iterable[PathLike] = (), *, force: bool) -> Path:
    """Where the result goes: a file with the input's suffix, or a new folder for shards.

    inputs: what is read beside the data. Raises BadInput when it cannot be written there, exists, or is read.
    """
    path = Path(output)
    suffix = files.stamps[0].suffix
    if not files.single and os.path.lexists(path):
        raise BadInput(f"{output}: exists, but shards are written to a new folder; name another or remove this one")
    if files.single and path.suffix.lower() != suffix:
        if path.suffix.lower() in KINDS:
            raise BadInput(f"{output}: the data is {suffix}; apply reorders, it does not convert")
        path = path.with_name(path.name + suffix)
    writing.check_outputs([path], [*inputs, *(stamp.path for stamp in files.stamps)], force=force)
    return path
