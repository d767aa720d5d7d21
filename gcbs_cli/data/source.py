"""One side of the pairs, opened: what every reader returns, whatever the format, and the column that holds it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gcbs_cli.data.files import FileStamp, one_line, shown
from gcbs_cli.system.arrays import Array
from gcbs_cli.system.errors import BadInput, nearest

RAW_DTYPES: dict[str, np.dtype[Any]] = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}
"""The element types that are read, each with the numpy type that carries its bits."""

NAMED = 10
"""How many of the faulty rows a message names."""

ACCEPTED_TYPES = "float16, bfloat16, float32 or float64"


@dataclass(frozen=True)
class EmbeddingSource:
    """One side (X or Y) of the pairs: a matrix whose header has been checked and whose rows are not yet read."""

    name: str
    """What messages call it: "x.npy" or "pairs.parquet:x"."""
    rows: int
    """N."""
    dim: int
    """d."""
    dtype: str
    """One of RAW_DTYPES."""
    blocks: Callable[[int], Iterator[Array]]
    """Yields consecutive blocks (n, d) of at most so many rows.

    C-contiguous, in native byte order, perhaps read-only; bfloat16 comes as its bits in uint16. Raises BadInput when a
    file is damaged or changed since it was opened.
    """
    column: str | None = None
    """The column or tensor that is read, None where a file is one matrix."""
    stamps: tuple[FileStamp, ...] = ()
    """What tells whether the files are still those that were opened, in the order in which they are read."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Where the files lie: paths, or addresses of remote ones; none for an array in memory."""
        return tuple(stamp.shown for stamp in self.stamps)


def check_matrix(name: str, shape: tuple[int, ...]) -> None:
    """Refuse a shape that is not (rows, dimensions) with a BadInput that names it."""
    if len(shape) != 2 or shape[1] < 1:
        raise BadInput(
            f"{name}: found an array of shape {shape}, expected 2-D, with at least one dimension per row;"
            " write one embedding per row"
        )


def check_pair(x: EmbeddingSource, y: EmbeddingSource) -> None:
    """Refuse sides whose rows or dimensions differ, or with fewer than two rows: one pair has no negatives."""
    if (x.rows, x.dim) != (y.rows, y.dim):
        raise BadInput(
            f"{y.name}: found {y.rows:,} rows of {y.dim:,} dimensions, expected {x.rows:,} of {x.dim:,} as in {x.name};"
            " row i of both must be the positive pair i, embedded with one model"
        )
    if x.rows < 2:
        raise BadInput(
            f"{x.name}: found {x.rows} row{'' if x.rows == 1 else 's'}, expected at least 2;"
            " a single pair has no negatives to plan for"
        )


def listed(names: list[str]) -> str:
    """Return the columns of a file for a message."""
    return one_line(", ".join(map(shown, names)) or "none")


def choose_column(
    stamp: FileStamp, columns: list[str], name: str | None, likely: Sequence[str | None], advice: str
) -> str:
    """Return the column of that name, or where none is named the first of the likely ones that the file has.

    Raises BadInput where it has none or several of that name.
    """
    name = name or next((column for column in likely if column in columns), "")
    if columns.count(name) != 1:
        raise BadInput(f"{stamp.shown}: found the columns {listed(columns)}{advice}{nearest(name, columns)}")
    return name


@dataclass(frozen=True)
class ColumnChoice:
    """Which column or tensor of a file holds a side."""

    side: Literal["x", "y"]
    name: str | None = None
    """The one that the user named."""
    holds_both: bool = False
    """Whether the file holds the other side as well."""
    planned: str | None = None
    """The one that a plan was made from; read where none was named and the file has it."""

    def choose(self, stamp: FileStamp, matrices: list[str]) -> str:
        """Return the name of the column to read.

        matrices: those that can hold embeddings. The order of preference: the one the user named, the one planned from,
        the one named like the side and, in a file for this side alone, the only candidate. Raises BadInput.
        """
        likely: list[str | None] = [self.planned, self.side]
        if not self.holds_both and len(matrices) == 1:
            likely += matrices
        column = shown(self.name or self.side)
        advice = f" of {ACCEPTED_TYPES} rows, expected {column}; name the right one with --{self.side}-column"
        return choose_column(stamp, matrices, self.name, likely, advice)
