"""One side of the pairs, opened: what every reader returns, whatever the format, and the column that holds it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from gcbs_cli.data.files import FileStamp, place, shown
from gcbs_cli.system.arrays import Array, Bools
from gcbs_cli.system.errors import BadInput, nearest

RAW_DTYPES: dict[str, np.dtype[Any]] = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}
"""The element types that are read, each with the numpy type that carries its bits."""

_NAMED = 10
"""How many of the faulty rows, or of a file's columns, a message names."""

_USUAL_NAMES = ("embedding", "embeddings")

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
    shards: tuple["EmbeddingSource", ...] = ()
    """The files one by one, where there are several."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Where the files lie: paths, or addresses of remote ones; none for an array in memory."""
        return tuple(place(stamp.path) for stamp in self.stamps)

    def locate(self, row: int) -> str:
        """Say where a row lies when it is not plain from the name: "row 5 of part-2.npy", else ""."""
        for shard in self.shards:
            if row < shard.rows:
                return f"row {row} of {shard.name}"
            row -= shard.rows
        return ""


@dataclass
class FaultyRows:
    """A count of rows with one fault and the first of them, with the words for the fault and for what is expected."""

    found: str
    expected: str
    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, mask: Bools, start: int) -> None:
        """Add the rows of a block whose first row is `start` and where `mask` is true."""
        rows = np.flatnonzero(mask)
        self.count += len(rows)
        self.first += (start + rows[: _NAMED - len(self.first)]).tolist()

    def refuse(self, name: str, locate: Callable[[int], str] | None = None) -> None:
        """Raise BadInput where there are any: "x.npy: found 3 rows (numbers 5, 17, 40, counted from 0) of zeros"."""
        if not self.count:
            return
        rows = "1 row (number" if self.count == 1 else f"{self.count:,} rows (numbers"
        if self.count > _NAMED:
            rows = f"{self.count:,} rows (the first {_NAMED}:"
        where = locate(self.first[0]) if locate else ""
        raise BadInput(
            f"{name}: found {rows} {', '.join(map(str, self.first))}, counted from 0) {self.found}"
            + (f" (the first is {where})" if where else "")
            + f", expected {self.expected}"
        )


def check_matrix(name: str, shape: tuple[int, ...]) -> None:
    """Refuse a shape that is not (rows, dimensions) with a BadInput that names it."""
    if len(shape) != 2 or shape[1] < 1:
        raise BadInput(
            f"{name}: found an array of shape {shape}, expected 2-D, with at least one dimension per row;"
            " write one embedding per row"
        )


def check_pair(x: EmbeddingSource, y: EmbeddingSource) -> None:
    """Refuse sides whose rows or dimensions differ, or with fewer than two rows: one pair has no negatives."""
    if x.rows != y.rows:
        raise BadInput(
            f"{y.name}: found {y.rows:,} rows, expected {x.rows:,} as in {x.name};"
            " row i of both must be the positive pair i"
        )
    if x.dim != y.dim:
        raise BadInput(
            f"{y.name}: found {y.dim:,} dimensions, expected {x.dim:,} as in {x.name}; embed both sides with one model"
        )
    if x.rows < 2:
        raise BadInput(
            f"{x.name}: found {x.rows} row{'' if x.rows == 1 else 's'}, expected at least 2;"
            " a single pair has no negatives to plan for"
        )


def listed(names: list[str]) -> str:
    """Return the columns of a file for a message."""
    some = ", ".join(shown(str(name)[:40]) for name in names[:_NAMED]) or "none"
    return some if len(names) <= _NAMED else f"{some} and {len(names) - _NAMED} more"


@dataclass(frozen=True)
class ColumnChoice:
    """Which side is wanted, the column that the user named for it, and whether the file holds the other side too.

    planned: the column that a plan was made from; taken where nothing was named and the file has it.
    """

    side: Literal["x", "y"]
    wanted: str | None = None
    holds_both: bool = False
    planned: str | None = None

    @property
    def option(self) -> str:
        """The command-line option that names the column."""
        return f"--{self.side}-column"

    def choose(self, stamp: FileStamp, columns: list[str], matrices: list[str], kind: str) -> str:
        """Return the name of the column to read.

        columns: all names in the file; matrices: those that can hold embeddings; kind: "column" or "tensor". The order
        of preference: the one the user named, the one planned from, the one named like the side and, in a file for this
        side alone, a usual name or the only candidate. Raises BadInput that names what the file has and the option to
        use.
        """
        likely = [self.planned, self.side, *(() if self.holds_both else _USUAL_NAMES)]
        only = matrices[0] if len(matrices) == 1 and not self.holds_both else None
        name = self.wanted or next((name for name in likely if name in columns), only)
        if name is None or name not in columns:
            wanted = f"a {kind} {self.side} of embeddings" if self.wanted is None else f"{kind} {shown(self.wanted)}"
            both = self.wanted is None and self.holds_both
            right = "ones with --x-column and --y-column" if both else f"one with {self.option}"
            raise BadInput(
                f"{stamp.shown}: found the {kind}s {listed(columns)}, expected {wanted}"
                f"{nearest(self.wanted or '', columns)}; name the right {right}"
            )
        if columns.count(name) > 1:
            raise BadInput(
                f"{stamp.shown}: found {columns.count(name)} {kind}s {shown(name)}, expected one; rename them"
            )
        return name
