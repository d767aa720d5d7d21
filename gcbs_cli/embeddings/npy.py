"""Reads `.npy` files row block by row block, with numpy's own header parser and pread, in C or Fortran order."""

import io
import os
import struct
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from gcbs_cli.embeddings.files import FileStamp, open_unchanged, read_bytes, read_into, stamp_file
from gcbs_cli.embeddings.source import ACCEPTED_TYPES, RAW_DTYPES, check_matrix
from gcbs_cli.errors import BadInput

_HEADER_BYTES: Final = 64 * 1024
"""More than any header that numpy's parser accepts (10,000 bytes), so no more of the file needs to be in memory."""

_FORTRAN_COLUMNS: Final = 16
"""Columns of a Fortran-order file read before they are transposed: enough to write whole cache lines."""

_PARSER_ERRORS: Final = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    SyntaxError,
    OverflowError,
    MemoryError,
    RecursionError,
    struct.error,
    tokenize.TokenError,
)
"""What numpy's parser is known to raise on damaged headers."""


@dataclass(frozen=True)
class NpySource:
    """A two-dimensional `.npy` file; an `EmbeddingSource`."""

    stamp: FileStamp
    rows: int
    dim: int
    dtype: str
    stored: np.dtype[Any]
    offset: int
    fortran_order: bool

    @property
    def name(self) -> str:
        """The path."""
        return self.stamp.shown

    @property
    def paths(self) -> tuple[str, ...]:
        """The one file."""
        return (self.stamp.path,)

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


def open_npy(path: str, dtype: str | None = None) -> NpySource:
    """Open a `.npy` file: parse its header and compare it with the file's size, reading none of the data.

    dtype: "bfloat16" reads `|V2` and uint16 files as bfloat16. Raises BadInput for anything that is not a whole
    two-dimensional float array.
    """
    stamp = stamp_file(path)
    with open_unchanged(stamp) as descriptor:
        start = read_bytes(descriptor, min(stamp.size, _HEADER_BYTES), 0, stamp)
    shape, fortran_order, stored, offset = _parse_header(stamp, start)
    element = _element_type(stamp.shown, stored, dtype)
    check_matrix(stamp.shown, shape)
    rows, dim = shape
    needed = rows * dim * stored.itemsize
    if stamp.size - offset != needed:
        problem = "is truncated" if stamp.size - offset < needed else "has bytes after its data"
        raise BadInput(
            f"{stamp.shown}: found {stamp.size - offset:,} bytes of data, expected {_shown_count(needed)} for the"
            f" {_shown_count(rows)} x {_shown_count(dim)} {stored.name} array of its header; the file {problem}, write it again"
        )
    return NpySource(stamp, rows, dim, element, stored, offset, fortran_order)


def _parse_header(stamp: FileStamp, start: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, Fortran order, dtype and offset of the data from the first bytes of the file."""
    stream = io.BytesIO(start)
    try:
        version = npy_format.read_magic(stream)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers written by Python 2 are fine, and hostile ones say anything
            if version == (1, 0):
                shape, fortran_order, stored = npy_format.read_array_header_1_0(stream)
            elif version == (2, 0):
                shape, fortran_order, stored = npy_format.read_array_header_2_0(stream)
            else:
                raise ValueError(f"format version {version[0]}.{version[1]}")
    except _PARSER_ERRORS as error:
        raise BadInput(
            f"{stamp.shown}: found no valid .npy header ({_reason(error)}), expected a file written by numpy.save;"
            " write it again"
        ) from None
    return shape, fortran_order, stored, stream.tell()


def _element_type(name: str, stored: np.dtype[Any], dtype: str | None) -> str:
    """Return the name of the element type, or raise BadInput when it cannot be read as embeddings."""
    if stored.hasobject:
        raise BadInput(
            f"{name}: found an object array (pickle), expected {ACCEPTED_TYPES}; it is never unpickled,"
            " save it with astype('float32')"
        )
    if stored.names is not None or stored.subdtype is not None:
        raise BadInput(f"{name}: found a structured array, expected {ACCEPTED_TYPES}; save its embedding field alone")
    two_raw_bytes = stored.str == "|V2" or (stored.kind == "u" and stored.itemsize == 2)
    if dtype == "bfloat16" and stored.itemsize == 2:
        if two_raw_bytes:
            return "bfloat16"
        raise BadInput(f"{name}: found {stored.name}, expected |V2 or uint16 with --dtype bfloat16; leave out --dtype")
    if two_raw_bytes:
        found = "|V2" if stored.kind == "V" else "uint16"
        raise BadInput(f"{name}: found {found}, expected {ACCEPTED_TYPES}; if it holds bfloat16, give --dtype bfloat16")
    if stored.kind == "f" and stored.name in RAW_DTYPES:
        return stored.name
    raise BadInput(f"{name}: found {stored.name}, expected {ACCEPTED_TYPES}; save it with astype('float32')")


def _reason(error: BaseException) -> str:
    """Return why the header was refused, in a few words, none of them from the file's own bytes at length."""
    longest = 80
    text = "".join(char if char.isprintable() else "?" for char in str(error).split(os.linesep)[0])
    return (text[:longest] + "..." if len(text) > longest else text) or type(error).__name__


def _shown_count(count: int) -> str:
    """Return a count from a header as text, short even when the header claims an absurd one."""
    return f"{count:,}" if count < 10**18 else "more than 10^18"
