"""Opens `.npy` files with numpy's own header parser; objects are never unpickled."""

import io
import struct
import tokenize
import warnings
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy_format

from gcbs_cli.data.files import FileStamp, one_line, open_unchanged, read_bytes, stamp_file
from gcbs_cli.data.raw_matrix import RawMatrixSource
from gcbs_cli.data.source import ACCEPTED_TYPES, RAW_DTYPES, check_matrix
from gcbs_cli.system.errors import BadInput

_HEADER_BYTES: Final = 64 * 1024
"""More than any header that numpy's parser accepts (10,000 bytes), so no more of the file needs to be in memory."""

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


def open_npy(path: str, dtype: str | None = None) -> RawMatrixSource:
    """Open a `.npy` file: parse its header and compare it with the file's size, reading none of the data.

    dtype: "bfloat16" reads `|V2` and uint16 files as bfloat16; float32 and float64 files are read as they are.
    Raises BadInput for anything that is not a whole two-dimensional float array.
    """
    stamp = stamp_file(path)
    with open_unchanged(stamp) as descriptor:
        shape, fortran_order, stored, offset = parse_header(stamp, descriptor)
    element = _element_type(stamp.shown, stored, dtype)
    check_matrix(stamp.shown, shape)
    rows, dim = shape
    needed = rows * dim * stored.itemsize
    if stamp.size - offset != needed:
        problem = "is truncated" if stamp.size - offset < needed else "has bytes after its data"
        array = f"{_shown_count(rows)} x {_shown_count(dim)} {stored.name} array"
        raise BadInput(
            f"{stamp.shown}: found {stamp.size - offset:,} bytes of data, expected {_shown_count(needed)}"
            f" for the {array} of its header; the file {problem}, write it again"
        )
    return RawMatrixSource(stamp, rows, dim, element, stored, offset, fortran_order)


def parse_header(stamp: FileStamp, descriptor: int) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, Fortran order, dtype and offset of the data of an open file. Raises BadInput for a damaged one."""
    stream = io.BytesIO(read_bytes(descriptor, min(stamp.size, _HEADER_BYTES), 0, stamp))
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
            f"{stamp.shown}: found no valid .npy header ({one_line(error)}), expected a file written by numpy.save;"
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


def _shown_count(count: int) -> str:
    """Return a count from a header as text, short even when the header claims an absurd one."""
    return f"{count:,}" if count < 10**18 else "more than 10^18"
