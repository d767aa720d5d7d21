"""Opens `.npy` and `.safetensors` files: libraries check the headers, and rows are read into arrays, never mapped.

Objects are never unpickled.
"""

import json
import math
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy_format

from gcbs_cli.data.files import FileStamp, label, one_line, open_unchanged, read_bytes, read_into, shown, stamp_file
from gcbs_cli.data.source import ACCEPTED_TYPES, RAW_DTYPES, ColumnChoice, EmbeddingSource, check_matrix
from gcbs_cli.system.arrays import Array
from gcbs_cli.system.errors import BadInput

_TENSOR_TYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
"""Element types by safetensors' names."""

_LENGTH_BYTES = 8
"""A safetensors file begins with a little-endian integer of so many bytes: the length of the header after it."""


def open_npy(stamp: FileStamp) -> EmbeddingSource:
    """Open a `.npy` file: parse its header and compare it with the file's size, reading none of the data.

    Elements of 2 bytes without a type are bfloat16, as ml_dtypes has it. Raises BadInput for anything that is not a
    whole two-dimensional float array.
    """
    with open_unchanged(stamp) as file:
        shape, stored, offset = read_header(stamp, file)
    element = str(stored).replace("|V2", "bfloat16")
    if element not in RAW_DTYPES:
        raise BadInput(
            f"{stamp.shown}: found {shown(element[:40])}, expected {ACCEPTED_TYPES}; save it with astype('float32')"
        )
    return _matrix(stamp, shape, element, offset)


def read_header(stamp: FileStamp, file: BinaryIO) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Parse the header of an open `.npy` file: shape, dtype, offset of the data.

    Raises BadInput for a damaged one, for what is not read by rows, and unless the file holds just the bytes of the
    array that it declares.
    """
    try:
        npy_format.read_magic(file)
        shape, fortran_order, stored = npy_format.read_array_header_1_0(file)
        np.broadcast_shapes(shape)  # refuses what no array of numpy can have, such as negative sizes
    except Exception as error:  # a hostile header has the parser raise whatever it can
        raise BadInput(
            f"{stamp.shown}: found no valid .npy header ({one_line(error)}), expected a file written by numpy.save;"
            " write it again"
        ) from None
    if fortran_order or stored.hasobject:
        raise BadInput(
            f"{stamp.shown}: found an object array (pickle) or Fortran order, expected numbers in C order; save"
            " np.ascontiguousarray(array, 'float32')"
        )
    offset = file.tell()
    needed = stored.itemsize * math.prod(shape)
    if stamp.size - offset != needed:
        raise BadInput(
            f"{stamp.shown}: found {stamp.size - offset:,} bytes of data, expected {needed:,} for the {stored.name}"
            f" array of shape {shape} of its header; write it again"
        )
    return shape, stored, offset


def read_vector(path: str, dtype: str | None = None) -> Array:
    """Read a whole 1-D array of one type, or of any that holds no objects. Raises BadInput."""
    stamp = stamp_file(path)
    with open_unchanged(stamp) as file:
        shape, stored, offset = read_header(stamp, file)
        if len(shape) != 1 or dtype not in (None, stored):
            raise BadInput(
                f"{stamp.shown}: found {shown(str(stored)[:40])} of shape {shape}, expected a 1-D array of"
                f" {dtype or 'numbers or texts'}; write it again"
            )
        values = np.empty(shape, stored)
        read_into(file, values, offset)
    return values


def open_safetensors(stamp: FileStamp, choice: ColumnChoice) -> EmbeddingSource:
    """Open the chosen tensor of a `.safetensors` file, reading none of the data.

    Raises BadInput for a file that the library refuses (a damaged header, offsets that overlap or leave the file), and
    where none of its 2-D tensors of floats is chosen.
    """
    from safetensors import SafetensorError, safe_open

    with open_unchanged(stamp) as file:
        try:
            with safe_open(stamp.path, framework="numpy"):
                pass
        except (SafetensorError, OSError, ValueError) as error:
            raise BadInput(
                f"{stamp.shown}: cannot be read ({one_line(error)}), expected a whole .safetensors file; write it again"
            ) from None
        # The library has checked the header, but does not say where in the file a tensor begins.
        length = int.from_bytes(read_bytes(file, _LENGTH_BYTES, 0), "little")
        tensors = json.loads(read_bytes(file, length, _LENGTH_BYTES))
    tensors.pop("__metadata__", None)
    matrices = [
        name for name, tensor in tensors.items() if tensor["dtype"] in _TENSOR_TYPES and len(tensor["shape"]) == 2
    ]
    name = choice.choose(stamp, matrices)
    tensor = tensors[name]
    offset = _LENGTH_BYTES + length + tensor["data_offsets"][0]
    return _matrix(stamp, tuple(tensor["shape"]), _TENSOR_TYPES[tensor["dtype"]], offset, name)


def _matrix(
    stamp: FileStamp, shape: tuple[int, ...], dtype: str, offset: int, column: str | None = None
) -> EmbeddingSource:
    """Return the source of (rows, dim) elements of a type from byte `offset` of a file on.

    Raises BadInput for another shape.
    """
    name = label(stamp.name, column)
    check_matrix(name, shape)
    rows, dim = shape
    element = RAW_DTYPES[dtype]

    def blocks(rows_per_block: int) -> Iterator[Array]:
        with open_unchanged(stamp) as file:
            for start in range(0, rows, rows_per_block):
                block = np.empty((min(rows_per_block, rows - start), dim), element)
                read_into(file, block, offset + start * dim * element.itemsize)
                yield block
                del block  # or it would stay in memory while the next one is read

    return EmbeddingSource(name, rows, dim, dtype, blocks, column, (stamp,))
