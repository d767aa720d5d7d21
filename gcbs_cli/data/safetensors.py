"""Opens `.safetensors` files: reads the header with pread and checks it; the library itself would map the file."""

import json
import math
from typing import Any, Final

import numpy as np

from gcbs_cli.data.columns import ColumnChoice
from gcbs_cli.data.files import FileStamp, one_line, open_unchanged, read_bytes, shown, stamp_file
from gcbs_cli.data.npy import matrix_source
from gcbs_cli.data.source import ACCEPTED_TYPES, EmbeddingSource, check_matrix, shown_count
from gcbs_cli.system.errors import BadInput

_TYPES: Final[dict[str, tuple[str, np.dtype[Any]]]] = {
    "F16": ("float16", np.dtype("<f2")),
    "BF16": ("bfloat16", np.dtype("<u2")),
    "F32": ("float32", np.dtype("<f4")),
    "F64": ("float64", np.dtype("<f8")),
}

_LENGTH_BYTES: Final = 8
"""A little-endian integer before the header: the header's length in bytes."""

_MOST_HEADER_BYTES: Final = 16 * 1024 * 1024
"""Far more than the header of any file of embeddings; the format itself allows 100 MB."""


def open_safetensors(path: str, choice: ColumnChoice) -> EmbeddingSource:
    """Open the chosen tensor of a `.safetensors` file, reading none of the data.

    Raises BadInput for a damaged header, offsets that overlap or leave the file, and tensors that are not 2-D floats.
    """
    stamp = stamp_file(path)
    tensors, data_start = _read_header(stamp)
    matrices = [name for name, tensor in tensors.items() if tensor["dtype"] in _TYPES and len(tensor["shape"]) == 2]
    name = choice.choose(stamp, list(tensors), matrices, "tensor")
    label = stamp.label(name)
    kind, shape, (begin, end) = (tensors[name][field] for field in ("dtype", "shape", "data_offsets"))
    if kind not in _TYPES:
        raise BadInput(f"{label}: found a tensor of {shown(kind[:20])}, expected {ACCEPTED_TYPES}; save it as float32")
    check_matrix(label, tuple(shape))
    dtype, stored = _TYPES[kind]
    if math.prod(shape) * stored.itemsize != end - begin:
        raise _invalid(stamp, f"tensor {shown(name)} has other bytes than its shape needs")
    return matrix_source(stamp, tuple(shape), dtype, stored, data_start + begin, column=name)


def _read_header(stamp: FileStamp) -> tuple[dict[str, dict[str, Any]], int]:
    """Return the checked entries of the tensors and the offset of the first data byte."""
    if stamp.size < _LENGTH_BYTES:
        raise _invalid(stamp, f"{stamp.size} bytes")
    with open_unchanged(stamp) as descriptor:
        length = int.from_bytes(read_bytes(descriptor, _LENGTH_BYTES, 0, stamp), "little")
        if length > min(stamp.size - _LENGTH_BYTES, _MOST_HEADER_BYTES):
            raise _invalid(stamp, f"{stamp.size:,} bytes of which the header claims {length:,}")
        text = read_bytes(descriptor, length, _LENGTH_BYTES, stamp)
    try:
        header = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _invalid(stamp, one_line(error)) from None
    if not isinstance(header, dict):
        raise _invalid(stamp, "no table of tensors")
    header.pop("__metadata__", None)
    data_start = _LENGTH_BYTES + length
    _check_entries(stamp, header, stamp.size - data_start)
    return header, data_start


def _check_entries(stamp: FileStamp, tensors: dict[str, Any], data_size: int) -> None:
    """Check that each tensor has a type, a shape and offsets, and that together they fill the data without a gap."""
    for name, tensor in tensors.items():
        if not _is_entry(tensor):
            raise _invalid(stamp, f"tensor {shown(name[:40])} without a valid type, shape and offsets")
    end = 0
    for begin, stop in sorted(tensor["data_offsets"] for tensor in tensors.values()):
        if begin != end or stop < begin:
            raise _invalid(stamp, f"tensors that overlap or leave a gap at byte {shown_count(begin)}")
        end = stop
    if end != data_size:
        problem = "is truncated" if end > data_size else "has bytes after its data"
        raise _invalid(stamp, f"{data_size:,} bytes of data for {shown_count(end)} in the header, the file {problem}")


def _is_entry(tensor: Any) -> bool:
    return (
        isinstance(tensor, dict)
        and isinstance(tensor.get("dtype"), str)
        and _are_counts(tensor.get("shape"))
        and _are_counts(tensor.get("data_offsets"))
        and len(tensor["data_offsets"]) == 2
    )


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _invalid(stamp: FileStamp, found: str) -> BadInput:
    return BadInput(f"{stamp.shown}: found {found}, expected a whole .safetensors file; write it again")
