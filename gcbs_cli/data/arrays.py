"""Reads embeddings from numpy arrays and torch tensors in memory."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.reading import PairStream
from gcbs_cli.data.source import ACCEPTED_TYPES, RAW_DTYPES, EmbeddingSource, check_matrix, check_pair, check_source
from gcbs_cli.system.errors import BadInput

if TYPE_CHECKING:
    import torch


def from_array(array: Any, name: str) -> EmbeddingSource:
    """Return a numpy array or torch tensor (N, d) of floats as an `EmbeddingSource`; only a device's tensor is copied.

    name: what messages call it. Raises BadInput: another type, not 2-D, not float, fewer than two rows.
    """
    torch = sys.modules.get("torch")  # who has a tensor has imported torch
    found = ""
    if torch is not None and isinstance(array, torch.Tensor):
        dtype = str(array.dtype).removeprefix("torch.")
        if array.layout != torch.strided or array.is_quantized or array.is_meta:
            found = "a sparse, quantized or meta tensor"
        elif dtype not in RAW_DTYPES:
            found = f"a tensor of {dtype}"
    elif isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray):
        dtype = array.dtype.name  # ml_dtypes calls its type "bfloat16" as well
        if dtype not in RAW_DTYPES:
            found = "a structured array" if array.dtype.names is not None else f"an array of {dtype}"
    else:
        found = type(array).__name__
    if found:
        raise BadInput(f"{name}: found {found}, expected a dense array or tensor of {ACCEPTED_TYPES}; convert it")
    shape = tuple(array.shape)
    check_matrix(name, shape)
    rows, dim = shape
    values = array if isinstance(array, np.ndarray) else _on_host(array)
    if dtype == "bfloat16":
        values = values.view(np.uint16)

    def blocks(rows_per_block: int) -> Iterator[NDArray[Any]]:
        for start in range(0, rows, rows_per_block):
            yield np.ascontiguousarray(values[start : start + rows_per_block], dtype=RAW_DTYPES[dtype])

    source = EmbeddingSource(name, rows, dim, dtype, blocks)
    check_source(source)
    return source


def open_arrays(x: Any, y: Any, *, normalize: bool = True) -> PairStream:
    """Return both sides from arrays or tensors. Raises BadInput for what `from_array` refuses and sides that differ."""
    sources = from_array(x, "x"), from_array(y, "y")
    check_pair(*sources)
    return PairStream(*sources, normalize=normalize)


def _on_host(tensor: "torch.Tensor") -> NDArray[Any]:
    import torch

    host = tensor.detach().cpu()
    values: NDArray[Any] = (host.view(torch.int16) if host.dtype == torch.bfloat16 else host).numpy()
    return values
