"""Reads embeddings from numpy arrays and torch tensors in memory."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from gcbs_cli.data.reading import PairStream
from gcbs_cli.data.source import ACCEPTED_TYPES, RAW_DTYPES, EmbeddingSource, check_matrix, check_pair
from gcbs_cli.system.arrays import Array
from gcbs_cli.system.errors import BadInput


def open_arrays(x: Any, y: Any, *, normalize: bool = True) -> PairStream:
    """Return both sides from arrays or tensors. Raises BadInput for what `from_array` refuses and sides that differ."""
    sources = from_array(x, "x"), from_array(y, "y")
    check_pair(*sources)
    return PairStream(*sources, normalize=normalize)


def from_array(array: Any, name: str) -> EmbeddingSource:
    """Return a numpy array or torch tensor (N, d) of floats as an `EmbeddingSource`; only a device's tensor is copied.

    name: what messages call it. Raises BadInput: another type, not 2-D, not float.
    """
    torch: Any = sys.modules.get("torch")  # who has a tensor has imported torch
    tensor = torch is not None and isinstance(array, torch.Tensor)
    if tensor:
        dense = array.layout == torch.strided and not array.is_meta
    else:
        dense = isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray)
    kind = getattr(array, "dtype", "unknown type")
    dtype = str(getattr(kind, "name", kind)).removeprefix("torch.")  # ml_dtypes calls its type "bfloat16" as well
    if not dense or dtype not in RAW_DTYPES:
        raise BadInput(
            f"{name}: found {type(array).__name__} of {dtype}, expected a dense array, or tensor on a device, of"
            f" {ACCEPTED_TYPES}; convert it"
        )
    check_matrix(name, tuple(array.shape))
    rows, dim = array.shape
    values = array
    if tensor:
        values = array.detach().cpu()
        values = (values.view(torch.int16) if dtype == "bfloat16" else values).numpy()
    if dtype == "bfloat16":
        values = values.view(np.uint16)

    def blocks(rows_per_block: int) -> Iterator[Array]:
        for start in range(0, rows, rows_per_block):
            yield np.ascontiguousarray(values[start : start + rows_per_block], dtype=RAW_DTYPES[dtype])

    return EmbeddingSource(name, rows, dim, dtype, blocks)
