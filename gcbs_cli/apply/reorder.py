"""Write data in plan order: of as many rows as memory holds at a time, every file is read from front to back."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from gcbs_cli.apply.byte_rows import ByteRows
from gcbs_cli.apply.files import targets
from gcbs_cli.data.files import FileStamp
from gcbs_cli.plan_file import writing
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import available_memory

_MOST_MEMORY = 1 << 32
"""With more, texts of a column could pass the 2 GiB that Arrow puts in order at a time."""


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
    if files[0].suffix == ".parquet":
        # pyarrow takes longer to load than a million lines to reorder.
        from gcbs_cli.apply.parquet_rows import ParquetRows

        data: Any = ParquetRows(files)
    else:
        data = ByteRows(files, header=header)
    for stamp, layout in zip(files, data.layouts, strict=True):
        if layout != data.layouts[0]:
            raise BadInput(f"{stamp.shown}: its columns differ from those of the first file")
    if len(data.row_bytes) != len(perm):
        raise BadInput(
            f"the data has {len(data.row_bytes):,} rows, the plan {len(perm):,}; was it made for other data?"
        )
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
