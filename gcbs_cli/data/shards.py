"""Reads a directory or a glob pattern of files as one matrix, in natural order (part-2 before part-10)."""

import glob
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from numpy.typing import NDArray

from gcbs_cli.data.files import FileStamp, shown, unreadable
from gcbs_cli.data.source import EmbeddingSource
from gcbs_cli.system.errors import BadInput


@dataclass(frozen=True)
class ShardedSource:
    """Files of one format, type and width, one after the other; an `EmbeddingSource`."""

    path: str
    shards: tuple[EmbeddingSource, ...]

    @property
    def name(self) -> str:
        """The directory or pattern, and the column where the files have several."""
        return shown(self.path) if self.column is None else f"{shown(self.path)}:{shown(self.column)}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The files in the order in which they are read."""
        return tuple(path for shard in self.shards for path in shard.paths)

    @property
    def stamps(self) -> tuple[FileStamp, ...]:
        """Those of all files."""
        return tuple(stamp for shard in self.shards for stamp in shard.stamps)

    @property
    def rows(self) -> int:
        """N, over all files."""
        return sum(shard.rows for shard in self.shards)

    @property
    def dim(self) -> int:
        """d."""
        return _first_filled(self.shards).dim

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.shards[0].dtype

    @property
    def column(self) -> str | None:
        """The column or tensor that is read from each file."""
        return self.shards[0].column

    def locate(self, row: int) -> str:
        """Return the file of a row and the row's number in it."""
        starts = list(accumulate((shard.rows for shard in self.shards[:-1]), initial=0))
        index = bisect_right(starts, row) - 1
        return f"row {row - starts[index]} of {self.shards[index].name}"

    def blocks(self, rows_per_block: int) -> Iterator[NDArray[Any]]:
        """Yield the rows in blocks; see `EmbeddingSource.blocks`."""
        for shard in self.shards:
            yield from shard.blocks(rows_per_block)


def open_shards(path: str, files: list[str], open_file: Callable[[str], EmbeddingSource]) -> ShardedSource:
    """Open every file and check that all have the width, the element type and the column of the first.

    Raises BadInput that names the file that differs, what it has and what the first has.
    """
    shards = tuple(open_file(file) for file in files)
    first = _first_filled(shards)
    for shard in shards:
        if shard.dim != first.dim and (shard.rows or shard.dim):
            raise _differs(shard, f"{shard.dim:,} dimensions", f"{first.dim:,}", first)
        if shard.dtype != first.dtype:
            raise _differs(shard, shard.dtype, first.dtype, first)
        if shard.column != first.column:
            raise _differs(shard, f"column {shown(str(shard.column))}", shown(str(first.column)), first)
    return ShardedSource(path, shards)


def list_directory(path: str) -> list[str]:
    """Return the files of a directory in natural order, without hidden ones (a name that starts with . or _)."""
    try:
        names = [name for name in os.listdir(path) if not name.startswith((".", "_"))]
    except OSError as error:
        raise unreadable(path, error) from None
    if not names:
        raise BadInput(f"{shown(path)}: found an empty directory, expected files of embeddings; check the path")
    return sorted((os.path.join(path, name) for name in names), key=natural_key)


def list_pattern(pattern: str) -> list[str]:
    """Return the files that a glob pattern matches in natural order, without hidden ones."""
    try:
        files = glob.glob(pattern, recursive=True)
    except (OSError, ValueError, re.error) as error:
        raise BadInput(f"{shown(pattern)}: found a pattern that cannot be used ({error}); check it") from None
    if not files:
        raise BadInput(f"{shown(pattern)}: found no file that matches, expected files of embeddings; check the pattern")
    return sorted(files, key=natural_key)


def natural_key(path: str) -> tuple[list[tuple[str, int]], str]:
    """Return a sort key that takes the digits in a path as numbers."""
    parts = re.split(r"([0-9]+)", path)
    return [(text, int(digits)) for text, digits in zip(parts[::2], [*parts[1::2], "0"], strict=True)], path


def _first_filled(shards: tuple[EmbeddingSource, ...]) -> EmbeddingSource:
    """Return the first shard with rows, or the first: an empty one may not know its width."""
    return next((shard for shard in shards if shard.rows), shards[0])


def _differs(shard: EmbeddingSource, found: str, expected: str, first: EmbeddingSource) -> BadInput:
    return BadInput(
        f"{shard.name}: found {found}, expected {expected} as in the first shard {first.name}; write all shards alike"
    )
