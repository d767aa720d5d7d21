"""Write data in plan order: of as many rows as memory holds at a time, every file is read from front to back."""

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from gcbs_cli.apply.byte_rows import ByteRows
from gcbs_cli.data.files import FileStamp, list_files, shown, stamp_file
from gcbs_cli.plan_file import writing
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import available_memory

SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".tar")
_MOST_MEMORY = 1 << 32  # with more, texts of a column could pass the 2 GiB that Arrow puts in order at a time


def find_files(data: str) -> list[FileStamp]:
    """The files of a path, folder or pattern, part-2 before part-10. Raises BadInput: none, two kinds, equal names."""
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
    """A file with the data's suffix, or a new folder for shards. Raises BadInput where `check_outputs` does, too."""
    path = Path(output)
    if len(files) > 1 and os.path.lexists(path):
        raise BadInput(f"{output}: exists, but shards are written to a new folder; name another or remove this one")
    if len(files) == 1 and path.suffix.lower() != files[0].suffix:
        raise BadInput(f"{output}: expected a name with {files[0].suffix}, as the data has; apply does not convert")
    writing.check_outputs([output], inputs, force=force)
    return path


def reorder(
    perm: Ints,
    files: list[FileStamp],
    output: Path,
    *,
    memory: int | None = None,
    header: bool = True,
    force: bool = False,
) -> list[int]:
    """Write row perm[p] of the data at place p; shards keep their names and numbers of rows, which are returned.

    memory: bytes of rows at a time; unless given, half of what is free. header: the first record of each CSV file names
    its columns and stays. Raises BadInput when the data has more or fewer rows than the plan, or is damaged.
    """
    if files[0].suffix == ".parquet":  # pyarrow takes longer to load than a million lines to reorder
        from gcbs_cli.apply.parquet_rows import ParquetRows

        data: Any = ParquetRows(files)
    else:
        data = ByteRows(files, header=header)
    for stamp, layout in zip(files, data.layouts, strict=True):
        if layout != data.layouts[0]:
            raise BadInput(f"{stamp.shown}: its columns differ from those of the first file")
    count = len(data.row_bytes)
    if count != len(perm):
        raise BadInput(f"the data has {count:,} rows, the plan {len(perm):,}; was it made for other data?")
    memory = min(memory or available_memory() // 2, _MOST_MEMORY)
    multiples = np.cumsum(data.row_bytes[perm]) // memory
    windows = iter(np.split(perm, np.flatnonzero(np.diff(multiples)) + 1))
    rows: Any = []
    with nullcontext(output) if len(files) == 1 else writing.folder(output) as place:
        for number, (target, missing) in enumerate(zip(targets(files, place), data.counts, strict=True)):
            with writing.file(target, force=force) as file, data.writer(number, file) as write:
                while missing > 0:
                    if not len(rows):
                        rows = []  # a slice keeps its whole window in memory
                        rows = data.read(next(windows))
                    write(rows[:missing])
                    rest = rows[missing:]
                    missing -= len(rows)
                    rows = rest
    return list(data.counts)
