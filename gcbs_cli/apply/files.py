"""Which files hold the data, in which order, and where the reordered ones go."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gcbs_cli.data.files import FileStamp, list_files, shown, stamp_file
from gcbs_cli.plan_file.writing import PathLike, check_outputs, explained, in_place, sync, temporary_folder
from gcbs_cli.system.errors import BadInput

KINDS = {".npy": "npy", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "csv"}
KINDS |= {".parquet": "parquet", ".tar": "tar"}


@dataclass(frozen=True)
class DataFiles:
    """Files of one kind, in the order in which their rows count; `single`: one file was named."""

    kind: str
    suffix: str
    stamps: tuple[FileStamp, ...]
    single: bool


def find_files(data: str) -> DataFiles:
    """The files of a path, a folder or a glob pattern, in natural order (part-2 before part-10).

    Raises BadInput: nothing there, an unknown or mixed kind, an empty file.
    """
    paths = list_files(data) or [data]
    suffixes = {Path(path).suffix.lower() for path in paths}
    kinds = {KINDS.get(suffix) for suffix in suffixes}
    if None in kinds or len(kinds) > 1:
        found = ", ".join(sorted(suffix or "no suffix" for suffix in suffixes))
        raise BadInput(f"{shown(data)}: found {found}; expected files of one kind: {', '.join(KINDS)}")
    names = [os.path.basename(path) for path in paths]
    if len(set(names)) < len(names):
        raise BadInput(f"{shown(data)}: two files have the same name; they would overwrite each other in one folder")
    suffix = Path(paths[0]).suffix
    return DataFiles(KINDS[suffix.lower()], suffix, tuple(map(stamp_file, paths)), paths == [data])


def output_path(files: DataFiles, output: str, inputs: Iterable[PathLike] = (), *, force: bool) -> Path:
    """Where the result goes: a file with the input's suffix, or a new folder for shards.

    inputs: what is read beside the data. Raises BadInput when it cannot be written there, exists, or is read.
    """
    path = Path(output)
    if not files.single and os.path.lexists(path):
        raise BadInput(f"{output}: exists; shards are written to a new folder, name another or remove it")
    if files.single and path.suffix.lower() != files.suffix.lower():
        if path.suffix.lower() in KINDS:
            raise BadInput(f"{output}: the data is {files.suffix}; apply reorders and converts nothing")
        path = path.with_name(path.name + files.suffix)
    check_outputs([path], [*inputs, *(stamp.path for stamp in files.stamps)], force=force)
    return path


@contextmanager
def atomic_targets(files: DataFiles, path: Path) -> Iterator[list[Path]]:
    """One path to write for each input file; all appear together when the block ends without an exception.

    A single file is written through `writing.file`; a folder is filled under another name and renamed.
    """
    if files.single:
        yield [path]
        return
    with temporary_folder(path) as temporary:
        place = temporary / "shards"
        place.mkdir()
        yield [place / os.path.basename(stamp.path) for stamp in files.stamps]
        with explained(path):
            sync(place)
            place.rename(path)
        in_place(path)
