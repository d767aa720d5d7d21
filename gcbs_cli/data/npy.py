"""Opens `.npy` files with numpy's own header parser and reads matrices of plain bytes; objects are never unpickled."""

import io
import struct
import tokenize
import warnings
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from gcbs_cli.data.files import FileStamp, one_line, open_unchanged, read_bytes, read_into, shown, stamp_file
from gcbs_cli.data.source import (
    ACCEPTED_TYPES,
    RAW_DTYPES,
    EmbeddingSource,
    check_matrix,
    file_source,
    shown_count,
    shown_shape,
)
from gcbs_cli.system.errors import BadInput

HEADER_BYTES: Final = 64 * 1024
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

Header = tuple[tuple[int, ...], bool, np.dtype[Any], int]
"""Shape, whether in Fortran order, dtype, offset of the data."""


def open_npy(path: str, dtype: str | None = None) -> EmbeddingSource:
    """Open a `.npy` file: parse its header and compare it with the file's size, reading none of the data.

    dtype: "bfloat16" reads `|V2` and uint16 files as bfloat16; float32 and float64 files are read as they are.
    Raises BadInput for anything that is not a whole two-dimensional float array.
    """
    stamp = stamp_file(path)
    with open_unchanged(stamp) as descriptor:
        shape, fortran_order, stored, offset = read_header(stamp, descriptor)
    element = _element_type(stamp.shown, stored, dtype)
    check_matrix(stamp.shown, shape)
    check_size(stamp, shape, stored, offset)
    return matrix_source(stamp, shape, element, stored, offset, fortran_order=fortran_order)


def read_header(stamp: FileStamp, descriptor: int) -> Header:
    """Parse the header of an open `.npy` file. Raises BadInput for a damaged one."""
    return parse_header(read_bytes(descriptor, min(stamp.size, HEADER_BYTES), 0, stamp), stamp.shown)


def parse_header(head: bytes, name: str) -> Header:
    """Parse the first bytes of a `.npy` file. Raises BadInput that names the file for a damaged header."""
    stream = io.BytesIO(head)
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
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError("a shape that is not whole numbers from 0 on")
    except _PARSER_ERRORS as error:
        raise BadInput(
            f"{name}: found no valid .npy header ({one_line(error)}), expected a file written by numpy.save;"
            " write it again"
        ) from None
    return shape, fortran_order, stored, stream.tell()


def read_vector(path: str, dtype: np.dtype[Any] | None, expected: str) -> NDArray[Any]:
    """Read a whole 1-D array of one type, or of any that holds no objects.

    expected: the type and what to do where it is another, for messages. Raises BadInput.
    """
    stamp = stamp_file(path)
    with open_unchanged(stamp) as descriptor:
        shape, _, stored, offset = read_header(stamp, descriptor)
        if len(shape) != 1:
            raise BadInput(f"{stamp.shown}: found an array of shape {shown_shape(shape)}, expected a 1-D array")
        if stored.hasobject or stored.itemsize == 0 or dtype not in (None, stored):
            raise BadInput(f"{stamp.shown}: found {shown(str(stored)[:40])}, expected {expected}")
        check_size(stamp, shape, stored, offset)
        values = np.empty(shape, stored)
        read_into(descriptor, values, offset, stamp)
    return values


def check_size(stamp: FileStamp, shape: tuple[int, ...], stored: np.dtype[Any], offset: int) -> None:
    """Raise BadInput unless the file holds just the bytes of the array that its header declares."""
    needed, found = stored.itemsize, stamp.size - offset
    for size in shape:
        needed *= size
    if found != needed:
        raise BadInput(
            f"{stamp.shown}: found {found:,} bytes of data, expected {shown_count(needed)} for the {stored.name} array"
            f" of shape {shown_shape(shape)} of its header; the file"
            f" {'is truncated' if found < needed else 'has bytes after its data'}, write it again"
        )


def matrix_source(
    stamp: FileStamp,
    shape: tuple[int, ...],
    dtype: str,
    stored: np.dtype[Any],
    offset: int,
    *,
    fortran_order: bool = False,
    column: str | None = None,
) -> EmbeddingSource:
    """Return the source of (rows, dim) elements of the numpy type `stored` from byte `offset` of a file on."""
    rows, dim = shape

    def read_c(descriptor: int, start: int, block: NDArray[Any]) -> None:
        read_into(descriptor, block, offset + start * dim * stored.itemsize, stamp)

    def read_fortran(descriptor: int, start: int, block: NDArray[Any]) -> None:
        columns = np.empty((min(_FORTRAN_COLUMNS, dim), len(block)), dtype=stored)
        for first in range(0, dim, _FORTRAN_COLUMNS):
            some = columns[: min(_FORTRAN_COLUMNS, dim - first)]
            for number, target in enumerate(some, start=first):
                read_into(descriptor, target, offset + (number * rows + start) * stored.itemsize, stamp)
            block[:, first : first + len(some)] = some.T

    def blocks(rows_per_block: int) -> Iterator[NDArray[Any]]:
        with open_unchanged(stamp) as descriptor:
            for start in range(0, rows, rows_per_block):
                block = np.empty((min(rows_per_block, rows - start), dim), dtype=stored)
                (read_fortran if fortran_order else read_c)(descriptor, start, block)
                yield (block if stored.isnative else block.byteswap(inplace=True)).view(RAW_DTYPES[dtype])
                del block  # or it would stay in memory while the next one is read

    return file_source(stamp, rows, dim, dtype, blocks, column)


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
