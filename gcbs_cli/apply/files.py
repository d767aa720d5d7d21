"""Which files are reordered, and where the result goes."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from gcbs_cli.data.files import FileStamp, list_files, shown, stamp_file
from gcbs_cli.plan_file import writing
from gcbs_cli.system.errors import BadInput

SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".tar")


def find_files(data: str) -> list[FileStamp]:
    """The files of a path, a folder or a glob pattern, in natural order (part-2 before part-10).

    Raises BadInput: nothing there, an unknown format or several, two files of one name.
    """
    files = list(map(stamp_file, list_files(data)))
    suffixes = {file.suffix for file in files}
    if len(suffixes) > 1 or not suffixes.issubset(SUFFIXES):
        names = ", ".join(sorted(suffix or "no suffix" for suffix in suffixes))
        raise BadInput(f"{shown(data)}: found {names}; expected files of one kind: {', '.join(SUFFIXES)}")
    if len(set(targets(files, Path()))) < len(files):
        raise BadInput(f"{shown(data)}: two files have the same name; they would overwrite each other in one folder")
    return files


def targets(files: Sequence[FileStamp], path: Path) -> list[Path]:
    """What is written for each: `path` itself for a file alone, else files of `path`, a folder."""
    return [path] if len(files) == 1 else [path / os.path.basename(file.path) for file in files]


def output_path(files: Sequence[FileStamp], output: str, inputs: Mapping[object, str], *, force: bool) -> Path:
    """Where the result goes: a file with the input's suffix, or a new folder for shards.

    inputs: what is read, by `writing.identity`. Raises BadInput when it cannot be written there, exists, or is read.
    """
    path = Path(output)
    if len(files) > 1 and os.path.lexists(path):
        raise BadInput(f"{output}: exists, but shards are written to a new folder; name another or remove this one")
    if len(files) == 1 and path.suffix.lower() != files[0].suffix:
        raise BadInput(f"{output}: expected a name with {files[0].suffix}, as the data has; apply does not convert")
    writing.check_outputs([path], inputs, force=force)
    return path
