"""Opens `.safetensors` files: the library checks the header, and the rows are read with pread, never mapped."""

import json
from typing import Any, Final

import numpy as np

from gcbs_cli.data.columns import ColumnChoice
from gcbs_cli.data.files import one_line, open_unchanged, read_bytes, shown, stamp_file
from gcbs_cli.data.npy import matrix_source
from gcbs_cli.data.source import ACCEPTED_TYPES, EmbeddingSource, check_matrix
from gcbs_cli.system.errors import BadInput

_TYPES: Final[dict[str, tuple[str, np.dtype[Any]]]] = {
    "F16": ("float16", np.dtype("<f2")),
    "BF16": ("bfloat16", np.dtype("<u2")),
    "F32": ("float32", np.dtype("<f4")),
    "F64": ("float64", np.dtype("<f8")),
}

_LENGTH_BYTES: Final = 8
"""A little-endian integer before the header: the header's length in bytes."""


def open_safetensors(path: str, choice: ColumnChoice) -> EmbeddingSource:
    """Open the chosen tensor of a `.safetensors` file, reading none of the data.

    Raises BadInput for a file that the library refuses (a damaged header, offsets that overlap or leave the file) and
    for tensors that are not 2-D floats.
    """
    from safetensors import SafetensorError, safe_open

    stamp = stamp_file(path)
    with open_unchanged(stamp) as descriptor:
        try:
            with safe_open(path, framework="numpy"):
                pass
        except (SafetensorError, OSError, ValueError) as error:
            raise BadInput(
                f"{stamp.shown}: found that it cannot be read ({one_line(error)}), expected a whole .safetensors file;"
                " write it again"
            ) from None
        length = int.from_bytes(read_bytes(descriptor, _LENGTH_BYTES, 0, stamp), "little")
        tensors = json.loads(read_bytes(descriptor, length, _LENGTH_BYTES, stamp))
    tensors.pop("__metadata__", None)
    matrices = [name for name, tensor in tensors.items() if tensor["dtype"] in _TYPES and len(tensor["shape"]) == 2]
    name = choice.choose(stamp, list(tensors), matrices, "tensor")
    label, kind, shape = stamp.label(name), tensors[name]["dtype"], tuple(tensors[name]["shape"])
    if kind not in _TYPES:
        raise BadInput(f"{label}: found a tensor of {shown(kind)}, expected {ACCEPTED_TYPES}; save it as float32")
    check_matrix(label, shape)
    offset = _LENGTH_BYTES + length + tensors[name]["data_offsets"][0]
    return matrix_source(stamp, shape, *_TYPES[kind], offset, column=name)
