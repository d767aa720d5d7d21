"""What every reader of embeddings offers, whatever the file format."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.system.errors import BadInput

if TYPE_CHECKING:
    from gcbs_cli.data.files import FileStamp

RAW_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}
"""The element types that are read, each with the numpy type that carries its bits."""

ACCEPTED_TYPES: Final = "float16, bfloat16, float32 or float64"


class EmbeddingSource(Protocol):
    """One side (X or Y) of the pairs: an opened and header-checked matrix of embeddings, not yet read."""

    @property
    def name(self) -> str:
        """What messages call it: "x.npy" or "pairs.parquet:x"."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files in the order in which they are read; empty for an array in memory."""

    @property
    def stamps(self) -> "tuple[FileStamp, ...]":
        """What tells whether the files are still those that were opened."""

    @property
    def rows(self) -> int:
        """N, the number of rows."""

    @property
    def dim(self) -> int:
        """d, the number of columns."""

    @property
    def dtype(self) -> str:
        """The element type: "float16", "bfloat16", "float32" or "float64"."""

    @property
    def column(self) -> str | None:
        """The column or tensor of the files that is read, None where a file is one matrix."""

    def blocks(self, rows_per_block: int) -> Iterator[NDArray[Any]]:
        """Yield consecutive blocks of at most `rows_per_block` rows, each a (n, d) array.

        Blocks are C-contiguous, in native byte order, and may be read-only; bfloat16 comes as its bits in uint16.
        Raises BadInput when a file is damaged or changed since it was opened.
        """

    def locate(self, row: int) -> str:
        """Say where a row lies when it is not plain from the name: "row 5 of part-2.npy", else ""."""


def check_matrix(name: str, shape: tuple[int, ...]) -> None:
    """Refuse a shape that is not (rows >= 0, dim >= 1) with a BadInput that names it."""
    if len(shape) != 2:
        raise BadInput(
            f"{name}: found an array of shape {_shown_shape(shape)}, expected 2-D (rows, dimensions);"
            " reshape it to one embedding a row"
        )
    if shape[0] < 0 or shape[1] < 1:
        raise BadInput(
            f"{name}: found an array of shape {_shown_shape(shape)}, expected at least one dimension; write it again"
        )


def check_source(source: EmbeddingSource) -> None:
    """Refuse fewer than two rows: one pair has no negatives."""
    if source.rows < 2:
        raise BadInput(
            f"{source.name}: found {source.rows:,} row{'' if source.rows == 1 else 's'}, expected at least 2;"
            " a single pair has no negatives to plan for"
        )


def check_pair(x: EmbeddingSource, y: EmbeddingSource) -> None:
    """Refuse sides whose rows or dimensions differ, or with fewer than two rows."""
    if x.rows != y.rows:
        raise BadInput(
            f"{y.name}: found {y.rows:,} rows, expected {x.rows:,} as in {x.name};"
            " row i of both must be the positive pair i"
        )
    if x.dim != y.dim:
        raise BadInput(
            f"{y.name}: found {y.dim:,} dimensions, expected {x.dim:,} as in {x.name}; embed both sides with one model"
        )
    check_source(x)


def _shown_shape(shape: tuple[int, ...]) -> str:
    """Return the shape as text, short even when a damaged header gives a thousand sizes."""
    longest = 6
    # A header can hold an integer of so many digits that Python refuses to print it.
    sizes = [str(size) if abs(size) < 10**18 else "more than 10^18" for size in shape[:longest]]
    return "(" + ", ".join(sizes) + (", ...)" if len(shape) > longest else ",)" if len(shape) == 1 else ")")
