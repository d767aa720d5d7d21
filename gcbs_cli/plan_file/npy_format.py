"""A permutation as .npy: int64, one dimension, numpy's own header and nothing pickled."""

import io
import os
import tokenize
import warnings
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from gcbs_cli.data.files import one_line
from gcbs_cli.plan_file.messages import wrong_length
from gcbs_cli.system.errors import BadInput

# Version 1.0 headers are at most 64 KiB; a longer claim is damage, and reading no further bounds the memory.
_HEADER_BYTES = 1 << 16
_ITEM_BYTES = 8


def write(file: BinaryIO, perm: NDArray[np.int64]) -> None:
    """Write header and values with plain writes: `np.save` hides the reason when the disk is full."""
    npy.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": perm.shape})
    file.write(perm.astype("<i8", copy=False).data)


def read(file: BinaryIO, source: str, rows: int | None) -> NDArray[np.int64]:
    """Read (N,) int64. Raises BadInput for another dtype or shape, a damaged header and a wrong length."""
    shape, dtype, offset = _read_header(file, source)
    if dtype != np.dtype("<i8"):
        raise BadInput(f"{source}: expected int64, got {dtype}; write it with np.save(path, perm.astype('int64'))")
    if len(shape) != 1 or shape[0] < 0:
        raise BadInput(f"{source}: expected a 1-D array, got shape {shape}")
    expected = offset + shape[0] * _ITEM_BYTES
    found = os.fstat(file.fileno()).st_size
    if found != expected:
        how = "truncated" if found < expected else "longer than its header says"
        raise BadInput(f"{source}: {how}: {found:,} bytes, expected {expected:,}; write it again")
    if rows is not None and shape[0] != rows:
        raise wrong_length(source, shape[0], rows)
    file.seek(offset)
    data = file.read(shape[0] * _ITEM_BYTES)
    if len(data) != shape[0] * _ITEM_BYTES:
        raise BadInput(f"{source}: became shorter while it was read; write it again")
    return np.frombuffer(bytearray(data), dtype="<i8").astype(np.int64, copy=False)


def _read_header(file: BinaryIO, source: str) -> tuple[tuple[int, ...], np.dtype[np.generic], int]:
    head = io.BytesIO(file.read(_HEADER_BYTES))
    if not head.getbuffer().nbytes:
        raise BadInput(f"{source}: is empty")
    try:
        version = npy.read_magic(head)
        if version not in ((1, 0), (2, 0)):
            raise BadInput(f"{source}: .npy version {version[0]}.{version[1]} is not one of a permutation (1.0, 2.0)")
        parse = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers written by Python 2 are fine
            shape, _, dtype = parse(head)
    except BadInput:
        raise
    except (
        ValueError,
        TypeError,
        SyntaxError,
        RecursionError,
        OverflowError,
        MemoryError,
        tokenize.TokenError,
    ) as error:
        raise BadInput(f"{source}: not a .npy file, or damaged: {one_line(error)}") from error
    return shape, dtype, head.tell()
