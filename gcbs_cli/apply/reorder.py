"""Write data in plan order: of as many rows as memory holds at a time, every file is read from front to back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gcbs_cli.apply.byte_rows import open_rows
from gcbs_cli.apply.files import DataFiles
from gcbs_cli.plan_file import writing
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import available_memory

_LEAST_MEMORY = 1 << 24
"""With less, the files would be read too often."""


def reorder(perm: Ints, files: DataFiles, output: Path, *, memory: int | None = None, header: bool = True) -> list[int]:
    """Write row perm[p] of the data at place p; shards keep their names and numbers of rows, which are returned.

    memory: bytes of rows at a time; unless given, half of what is free. header: the first record of each CSV file names
    its columns and stays. Raises BadInput when the data has more or fewer rows than the plan, is damaged, or holds what
    Arrow cannot reorder.
    """
    if memory is None:
        memory = available_memory() // 2
    if files.kind == "parquet":
        # pyarrow takes longer to load than a million lines to reorder.
        from gcbs_cli.apply.parquet_rows import MOST_MEMORY, ParquetFile

        memory = min(memory, MOST_MEMORY)
        sources: list[Any] = [ParquetFile(stamp) for stamp in files.stamps]
    else:
        sources = [open_rows(stamp, files.kind, header=header) for stamp in files.stamps]
    for source in sources:
        if source.layout != sources[0].layout:
            first = sources[0].stamp.shown
            raise BadInput(f"{source.stamp.shown}: its columns, or type and shape of its rows, differ from {first}")
    counts = [len(source.row_bytes) for source in sources]
    if sum(counts) != len(perm):
        raise BadInput(f"the data has {sum(counts):,} rows, the plan {len(perm):,}; was it made for other data?")
    windows = _in_order(sources, perm, max(memory, _LEAST_MEMORY))
    rows: Any = []
    with files.place(output) as place:
        for source, target, missing in zip(sources, files.targets(place), counts, strict=True):
            with writing.file(target) as file, source.writer(file) as write:
                while missing:
                    if not len(rows):
                        rows = []  # a slice keeps its whole window in memory
                        rows = next(windows)
                    write(rows[:missing])
                    written = min(missing, len(rows))
                    rows = rows[written:]
                    missing -= written
    return counts


def _in_order(sources: list[Any], perm: Ints, memory: int) -> Iterator[Any]:
    """Yield all rows in plan order, as many at a time as memory holds."""
    starts = np.cumsum([0, *(len(source.row_bytes) for source in sources)])
    for window in _windows(sources, perm, memory):
        rising = np.sort(window)
        cuts = np.searchsorted(rising, starts)
        order = np.searchsorted(rising, window)
        # No variable holds what was read: it would stay while the next window is read.
        yield sources[0].joined(
            [source.read(rising[cuts[n] : cuts[n + 1]] - starts[n]) for n, source in enumerate(sources)], order
        )


def _windows(sources: list[Any], perm: Ints, memory: int) -> list[Ints]:
    """Cut a plan where its rows, one after the other, would pass a multiple of this memory."""
    needed = np.concatenate([source.row_bytes for source in sources])[perm]
    np.cumsum(needed, out=needed)
    needed //= memory
    return np.split(perm, np.flatnonzero(np.diff(needed)) + 1)
