"""Opens `.npy` and `.safetensors` files: libraries check the headers, and rows are read into arrays, never mapped.

Objects are never unpickled.
"""

import io
import json
import math
import warnings
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy_format

from gcbs_cli.data.files import FileStamp, one_line, open_unchanged, read_bytes, read_into, shown, stamp_file
from gcbs_cli.data.source import ACCEPTED_TYPES, RAW_DTYPES, ColumnChoice, EmbeddingSource, check_matrix
from gcbs_cli.system.arrays import Array
from gcbs_cli.system.errors import BadInput

_HEADER_BYTES = 64 * 1024
"""More than any header that numpy's parser accepts (10,000 bytes), so no more of the file needs to be in memory."""

_TENSOR_TYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
"""Element types by safetensors' names."""

_LENGTH_BYTES = 8
"""A safetensors file begins with a little-endian integer of so many bytes: the length of the header after it."""

_PARSERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


def open_npy(stamp: FileStamp, dtype: str | None = None) -> EmbeddingSource:
    """Open a `.npy` file: parse its header and compare it with the file's size, reading none of the data.

    dtype: "bfloat16" reads `|V2` and uint16 files as bfloat16; files of floats are read as they are.
    Raises BadInput for anything that is not a whole two-dimensional float array.
    """
    with open_unchanged(stamp) as file:
        shape, fortran_order, stored, offset = read_header(stamp, file)
    element = stored.name
    two_raw_bytes = element in ("void16", "uint16")
    if two_raw_bytes and dtype == "bfloat16":
        element = "bfloat16"
    if element not in RAW_DTYPES:
        advice = "save it with astype('float32')"
        if two_raw_bytes:
            advice += "; if it holds bfloat16, give --dtype bfloat16"
        elif stored.kind == "i":
            advice = "it looks like a plan: name that with -p"
        raise BadInput(f"{stamp.shown}: found {_type_name(stored)}, expected {ACCEPTED_TYPES}; {advice}")
    return _matrix(stamp, shape, element, stored, offset, fortran_order=fortran_order)


def read_header(stamp: FileStamp, file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Parse the header of an open `.npy` file: shape, whether in Fortran order, dtype, offset of the data.

    Raises BadInput for a damaged one, and unless the file holds just the bytes of the array that it declares.
    """
    stream = io.BytesIO(file.read(_HEADER_BYTES))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers written by Python 2 are fine, and hostile ones say anything
            shape, fortran_order, stored = _PARSERS[npy_format.read_magic(stream)](stream)
        np.broadcast_shapes(shape)  # refuses what no array of numpy can have, such as negative sizes
    except Exception as error:  # a hostile header has the parser raise whatever it can
        raise BadInput(
            f"{stamp.shown}: found no valid .npy header ({one_line(error)}), expected a file written by numpy.save;"
            " write it again"
        ) from None
    offset = stream.tell()
    needed = stored.itemsize * math.prod(shape)
    present = stamp.size - offset
    if present != needed and not stored.hasobject:  # objects are refused by who knows what is expected
        raise BadInput(
            f"{stamp.shown}: found {present:,} bytes of data, expected {needed:,} for the {stored.name} array of shape"
            f" {shape} of its header; write it again"
        )
    return shape, fortran_order, stored, offset


def read_vector(path: str, dtype: np.dtype[Any] | None, expected: str) -> Array:
    """Read a whole 1-D array of one type, or of any that holds no objects.

    expected: the type and what to do where it is another, for messages. Raises BadInput.
    """
    stamp = stamp_file(path)
    with open_unchanged(stamp) as file:
        shape, _, stored, offset = read_header(stamp, file)
        if len(shape) != 1:
            raise BadInput(f"{stamp.shown}: found an array of shape {shape}, expected a 1-D array")
        if stored.hasobject or stored.itemsize == 0 or dtype not in (None, stored):
            raise BadInput(f"{stamp.shown}: found {_type_name(stored)}, expected {expected}")
        values = np.empty(shape, stored)
        read_into(file, values, offset)
    return values


def open_safetensors(stamp: FileStamp, choice: ColumnChoice) -> EmbeddingSource:
    """Open the chosen tensor of a `.safetensors` file, reading none of the data.

    Raises BadInput for a file that the library refuses (a damaged header, offsets that overlap or leave the file) and
    for tensors that are not 2-D floats.
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
    name = choice.choose(stamp, list(tensors), matrices, "tensor")
    tensor = tensors[name]
    element = _TENSOR_TYPES.get(tensor["dtype"])
    if element is None:
        raise BadInput(
            f"{stamp.label(name)}: found a tensor of {shown(tensor['dtype'])}, expected {ACCEPTED_TYPES}; save it as"
            " float32"
        )
    stored = RAW_DTYPES[element].newbyteorder("<")
    offset = _LENGTH_BYTES + length + tensor["data_offsets"][0]
    return _matrix(stamp, tuple(tensor["shape"]), element, stored, offset, column=name)


def _matrix(
    stamp: FileStamp,
    shape: tuple[int, ...],
    dtype: str,
    stored: np.dtype[Any],
    offset: int,
    *,
    fortran_order: bool = False,
    column: str | None = None,
) -> EmbeddingSource:
    """Return the source of (rows, dim) elements of the numpy type `stored` from byte `offset` of a file on.

    Raises BadInput for another shape.
    """
    label = stamp.label(column)
    check_matrix(label, shape)
    rows, dim = shape
    native = stored.newbyteorder("=")

    def read(file: BinaryIO, start: int, count: int) -> Array:
        if not fortran_order:
            block = np.empty((count, dim), stored)
            read_into(file, block, offset + start * dim * stored.itemsize)
            return block
        columns = np.empty((dim, count), stored)
        for number, values in enumerate(columns):
            read_into(file, values, offset + (number * rows + start) * stored.itemsize)
        return np.ascontiguousarray(columns.T)

    def blocks(rows_per_block: int) -> Iterator[Array]:
        with open_unchanged(stamp) as file:
            for start in range(0, rows, rows_per_block):
                block = read(file, start, min(rows_per_block, rows - start))
                yield block.astype(native, copy=False).view(RAW_DTYPES[dtype])
                del block  # or it would stay in memory while the next one is read

    return EmbeddingSource(label, rows, dim, dtype, blocks, column, (stamp,))


def _type_name(stored: np.dtype[Any]) -> str:
    return "an object array (pickle)" if stored.hasobject else shown(str(stored)[:40])
