"""Opens `.safetensors` files: reads the header with pread and checks it; the library itself would map the file."""

import math
from typing import Annotated, Any, Final

import numpy as np
import pydantic_core
from pydantic import BaseModel, Field, NonNegativeInt, TypeAdapter, ValidationError

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


class _Tensor(BaseModel):
    dtype: str
    shape: list[NonNegativeInt]
    data_offsets: Annotated[list[NonNegativeInt], Field(min_length=2, max_length=2)]


_TENSORS: Final = TypeAdapter(dict[str, _Tensor])


def open_safetensors(path: str, choice: ColumnChoice) -> EmbeddingSource:
    """Open the chosen tensor of a `.safetensors` file, reading none of the data.

    Raises BadInput for a damaged header, offsets that overlap or leave the file, and tensors that are not 2-D floats.
    """
    stamp = stamp_file(path)
    tensors, data_start = _read_header(stamp)
    matrices = [name for name, tensor in tensors.items() if tensor.dtype in _TYPES and len(tensor.shape) == 2]
    name = choice.choose(stamp, list(tensors), matrices, "tensor")
    label = stamp.label(name)
    kind, shape, (begin, end) = tensors[name].dtype, tuple(tensors[name].shape), tensors[name].data_offsets
    if kind not in _TYPES:
        raise BadInput(f"{label}: found a tensor of {shown(kind[:20])}, expected {ACCEPTED_TYPES}; save it as float32")
    check_matrix(label, shape)
    dtype, stored = _TYPES[kind]
    if math.prod(shape) * stored.itemsize != end - begin:
        raise _invalid(stamp, f"tensor {shown(name)} has other bytes than its shape needs")
    return matrix_source(stamp, shape, dtype, stored, data_start + begin, column=name)


def _read_header(stamp: FileStamp) -> tuple[dict[str, _Tensor], int]:
    """Return the checked entries of the tensors and the offset of the first data byte."""
    with open_unchanged(stamp) as descriptor:
        length = int.from_bytes(read_bytes(descriptor, min(_LENGTH_BYTES, stamp.size), 0, stamp), "little")
        if length > min(stamp.size - _LENGTH_BYTES, _MOST_HEADER_BYTES):
            raise _invalid(stamp, f"{stamp.size:,} bytes of which the header claims {length:,}")
        text = read_bytes(descriptor, length, _LENGTH_BYTES, stamp)
    try:
        header = pydantic_core.from_json(text)
        if isinstance(header, dict):
            header.pop("__metadata__", None)
        tensors = _TENSORS.validate_python(header, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(shown(str(part)[:40]) for part in first["loc"])
        raise _invalid(stamp, f"{place or 'the header'}: {first['msg']}") from None
    except ValueError as error:
        raise _invalid(stamp, one_line(error)) from None
    data_start = _LENGTH_BYTES + length
    end = 0
    for begin, stop in sorted(tuple(tensor.data_offsets) for tensor in tensors.values()):
        if begin != end or stop < begin:
            raise _invalid(stamp, f"tensors that overlap or leave a gap at byte {shown_count(begin)}")
        end = stop
    size = stamp.size - data_start
    if end != size:
        problem = "is truncated" if end > size else "has bytes after its data"
        raise _invalid(stamp, f"{size:,} bytes of data for {shown_count(end)} in the header, the file {problem}")
    return tensors, data_start


def _invalid(stamp: FileStamp, found: str) -> BadInput:
    return BadInput(f"{stamp.shown}: found {found}, expected a whole .safetensors file; write it again")
