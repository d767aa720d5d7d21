"""Reads a matrix that lies in a file as plain bytes, block by block with pread."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.files import FileStamp, open_unchanged, read_into
from gcbs_cli.data.source import RAW_DTYPES

_FORTRAN_COLUMNS: Final = 16
"""Columns of a Fortran-order file read before they are transposed: enough to write whole cache lines."""


@dataclass(frozen=True)
class RawMatrixSource:
    """(rows, dim) elements of the numpy type `stored` from byte `offset` of a file on; an `EmbeddingSource`."""

    stamp: FileStamp
    rows: int
    dim: int
    dtype: str
    stored: np.dtype[Any]
    offset: int
    fortran_order: bool = False
    column: str | None = None

    @property
    def name(self) -> str:
        """The path, and the tensor where a file has several."""
        return self.stamp.label(self.column)

    @property
    def paths(self) -> tuple[str, ...]:
        """The one file."""
        return (self.stamp.path,)

    @property
    def stamps(self) -> tuple[FileStamp, ...]:
        """The one file's."""
        return (self.stamp,)

    def locate(self, row: int) -> str:
        """Return "": the row number says it all."""
        return ""

    def blocks(self, rows_per_block: int) -> Iterator[NDArray[Any]]:
        """Yield the rows in blocks; see `EmbeddingSource.blocks`."""
        read = self._read_fortran if self.fortran_order else self._read_c
        with open_unchanged(self.stamp) as descriptor:
            for start in range(0, self.rows, rows_per_block):
                yield self._as_raw(read(descriptor, start, min(rows_per_block, self.rows - start)))

    def _read_c(self, descriptor: int, start: int, count: int) -> NDArray[Any]:
        block = np.empty((count, self.dim), dtype=self.stored)
        read_into(descriptor, block, self.offset + start * self.dim * self.stored.itemsize, self.stamp)
        return block

    def _read_fortran(self, descriptor: int, start: int, count: int) -> NDArray[Any]:
        block = np.empty((count, self.dim), dtype=self.stored)
        columns = np.empty((min(_FORTRAN_COLUMNS, self.dim), count), dtype=self.stored)
        for first in range(0, self.dim, _FORTRAN_COLUMNS):
            some = columns[: min(_FORTRAN_COLUMNS, self.dim - first)]
            for column, target in enumerate(some, start=first):
                place = self.offset + (column * self.rows + start) * self.stored.itemsize
                read_into(descriptor, target, place, self.stamp)
            block[:, first : first + len(some)] = some.T
        return block

    def _as_raw(self, block: NDArray[Any]) -> NDArray[Any]:
        """Return the block in native byte order, viewed as the type that carries the element's bits."""
        if not self.stored.isnative:
            block = block.byteswap(inplace=True)
        return block.view(RAW_DTYPES[self.dtype])
