"""Reads embeddings from numpy arrays and torch tensors in memory."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.files import FileStamp
from gcbs_cli.data.source import ACCEPTED_TYPES, RAW_DTYPES, EmbeddingSource, check_matrix, check_source
from gcbs_cli.system.errors import BadInput

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class _InMemory:
    """What a matrix (rows, dim) in memory, without a file, says of itself as an `EmbeddingSource`."""

    name: str
    values: Any
    dtype: str

    column: ClassVar[None] = None
    paths: ClassVar[tuple[str, ...]] = ()
    stamps: ClassVar[tuple[FileStamp, ...]] = ()

    @property
    def rows(self) -> int:
        """N."""
        return int(self.values.shape[0])

    @property
    def dim(self) -> int:
        """d."""
        return int(self.values.shape[1])

    def locate(self, row: int) -> str:
        """Return "": the row number says it all."""
        return ""


class ArraySource(_InMemory):
    """A numpy array; bfloat16 is held as uint16 bits."""

    def blocks(self, rows_per_block: int) -> Iterator[NDArray[Any]]:
        """Yield the rows in blocks; see `EmbeddingSource.blocks`."""
        for start in range(0, self.rows, rows_per_block):
            yield np.ascontiguousarray(self.values[start : start + rows_per_block], dtype=RAW_DTYPES[self.dtype])


class TensorSource(_InMemory):
    """A torch tensor on any device, copied to the host block by block."""

    def blocks(self, rows_per_block: int) -> Iterator[NDArray[Any]]:
        """Yield the rows in blocks; see `EmbeddingSource.blocks`."""
        import torch

        for start in range(0, self.rows, rows_per_block):
            block = self.values[start : start + rows_per_block].cpu().contiguous()
            if block.dtype == torch.bfloat16:
                block = block.view(torch.int16)
            yield block.numpy().view(RAW_DTYPES[self.dtype])


def from_array(array: Any, name: str) -> EmbeddingSource:
    """Return a numpy array or torch tensor (N, d) of floats as an `EmbeddingSource`; nothing is copied yet.

    name: what messages call it. Raises BadInput: another type, not 2-D, not float, fewer than two rows.
    """
    torch = sys.modules.get("torch")  # who has a tensor has imported torch
    source: EmbeddingSource
    if torch is not None and isinstance(array, torch.Tensor):
        source = _from_tensor(array, name)
    elif isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray):
        source = _from_numpy(array, name)
    else:
        raise BadInput(f"{name}: found {type(array).__name__}, expected a numpy array or torch tensor; convert it")
    check_source(source)
    return source


def _from_numpy(array: NDArray[Any], name: str) -> ArraySource:
    dtype = array.dtype.name  # ml_dtypes calls its type "bfloat16" as well
    if dtype not in RAW_DTYPES:
        found = "a structured array" if array.dtype.names is not None else f"an array of {dtype}"
        raise BadInput(f"{name}: found {found}, expected {ACCEPTED_TYPES}; convert it with astype('float32')")
    check_matrix(name, array.shape)
    return ArraySource(name, array.view(np.uint16) if dtype == "bfloat16" else array, dtype)


def _from_tensor(tensor: "torch.Tensor", name: str) -> TensorSource:
    import torch

    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        raise BadInput(f"{name}: found a sparse, quantized or meta tensor, expected a dense one; convert it")
    if dtype not in RAW_DTYPES:
        raise BadInput(f"{name}: found a tensor of {dtype}, expected {ACCEPTED_TYPES}; convert it with .float()")
    check_matrix(name, tuple(tensor.shape))
    return TensorSource(name, tensor.detach(), dtype)
