"""Writers of the same matrix in every format, written with the formats' own libraries."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from gcbs_cli.data.opening import from_array
from gcbs_cli.data.reading import UnitRowBlocks
from gcbs_cli.system.errors import BadInput


def fixed_lists(matrix):
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(matrix).reshape(-1)), matrix.shape[1])


def lists(matrix):
    return fixed_lists(matrix).cast(pa.list_(pa.from_numpy_dtype(matrix.dtype)))


def large_lists(matrix):
    return fixed_lists(matrix).cast(pa.large_list(pa.from_numpy_dtype(matrix.dtype)))


def write_parquet(path, **columns):
    pq.write_table(pa.table(columns), path, row_group_size=7)
    return str(path)


def write_safetensors(path, **tensors):
    save_file({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, path, {"format": "pt"})
    return str(path)


def write_npy(path, matrix):
    np.save(path, matrix)
    return str(path)


def refusal(call):
    """Return the message of the BadInput that `call` must raise: one printable line."""
    with pytest.raises(BadInput) as caught:
        call()
    message = str(caught.value)
    assert message.isprintable(), message
    assert 10 < len(message) < 700, message
    return message


def read_unit_rows(source, **settings):
    blocks = UnitRowBlocks(source, **settings)
    blocks.read()
    return blocks


def fingerprint_of(array):
    return read_unit_rows(from_array(array, "array")).fingerprint
