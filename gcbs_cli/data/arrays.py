"""Reads embeddings from numpy arrays and torch tensors in memory."""

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.source import ACCEPTED_TYPES, RAW_DTYPES, EmbeddingSource, check_matrix, check_source
from gcbs_cli.system.errors import BadInput

if TYPE_CHECKING:
    import torch


def from_array(array: Any, name: str) -> EmbeddingSource:
    """Return a numpy array or torch tensor (N, d) of floats as an `EmbeddingSource`; nothing is copied yet.

    name: what messages call it. Raises BadInput: another type, not 2-D, not float, fewer than two rows.
    """
    torch = sys.modules.get("torch")  # who has a tensor has imported torch
    if torch is not None and isinstance(array, torch.Tensor):
        dtype, take = _of_tensor(array, name)
    elif isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray):
        dtype, take = _of_numpy(array, name)
    else:
        raise BadInput(f"{name}: found {type(array).__name__}, expected a numpy array or torch tensor; convert it")
    shape = tuple(array.shape)
    check_matrix(name, shape)
    rows, dim = shape

    def blocks(rows_per_block: int) -> Iterator[NDArray[Any]]:
        for start in range(0, rows, rows_per_block):
            yield take(slice(start, start + rows_per_block))

    source = EmbeddingSource(name, rows, dim, dtype, blocks)
    check_source(source)
    return source


Take = Callable[[slice], NDArray[Any]]


def _of_numpy(array: NDArray[Any], name: str) -> tuple[str, Take]:
    dtype = array.dtype.name  # ml_dtypes calls its type "bfloat16" as well
    if dtype not in RAW_DTYPES:
        found = "a structured array" if array.dtype.names is not None else f"an array of {dtype}"
        raise BadInput(f"{name}: found {found}, expected {ACCEPTED_TYPES}; convert it with astype('float32')")
    values = array.view(np.uint16) if dtype == "bfloat16" else array
    return dtype, lambda rows: np.ascontiguousarray(values[rows], dtype=RAW_DTYPES[dtype])


def _of_tensor(tensor: "torch.Tensor", name: str) -> tuple[str, Take]:
    """Copied to the host block by block."""
    import torch

    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        raise BadInput(f"{name}: found a sparse, quantized or meta tensor, expected a dense one; convert it")
    if dtype not in RAW_DTYPES:
        raise BadInput(f"{name}: found a tensor of {dtype}, expected {ACCEPTED_TYPES}; convert it with .float()")
    values = tensor.detach()

    def take(rows: slice) -> NDArray[Any]:
        block = values[rows].cpu().contiguous()
        bits: NDArray[Any] = (block.view(torch.int16) if dtype == "bfloat16" else block).numpy()
        return bits.view(RAW_DTYPES[dtype])

    return dtype, take
