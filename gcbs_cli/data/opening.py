"""Opens the two sides of the pairs: paths, whose suffix decides the format, or arrays and tensors in memory."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from gcbs_cli.data.files import FileStamp, label, list_files, shown, stamp_file
from gcbs_cli.data.npy import open_npy, open_safetensors
from gcbs_cli.data.reading import PairStream
from gcbs_cli.data.remote import fetch, is_remote
from gcbs_cli.data.source import ACCEPTED_TYPES, RAW_DTYPES, ColumnChoice, EmbeddingSource, check_matrix, check_pair
from gcbs_cli.data.tables import open_embedding_table
from gcbs_cli.system.arrays import Array
from gcbs_cli.system.errors import BadInput


def open_pair(
    x: str,
    y: str | None,
    *,
    x_column: str | None = None,
    y_column: str | None = None,
    planned: tuple[str | None, str | None] = (None, None),
) -> tuple[EmbeddingSource, EmbeddingSource]:
    """Open both sides and check their headers against each other, before any data is read.

    x, y: a file, a directory or a glob pattern of files; without y, x holds both sides as columns or tensors "x" and
    "y". x_column, y_column: other names for them.
    planned: the columns of a plan made before, taken where none is named and the files have them.
    Raises BadInput, one line, for anything that cannot be read as (N, d) floats with N >= 2 and equal shapes.
    """
    both = y is None
    left = open_side(x, ColumnChoice("x", x_column, both, planned[0]))
    if both and left.column is None:
        raise BadInput(f"{left.name}: found one array, expected both sides; give Y's file as the second argument")
    right = open_side(x if y is None else y, ColumnChoice("y", y_column, both, planned[1]))
    check_pair(left, right)
    return left, right


def open_side(path: str, choice: ColumnChoice) -> EmbeddingSource:
    """Open one side from a file, or from all files of a directory or glob pattern, here or at a remote address.

    Raises BadInput for a shard whose format, width, element type or column is not that of the first.
    """
    files = fetch(path) if is_remote(path) else {file: file for file in list_files(path)}
    shards = [_open_file(stamp_file(place, name), choice) for name, place in files.items()]
    first = next((shard for shard in shards if shard.rows), shards[0])  # an empty one may not know its width
    for shard in shards:
        is_alike = (shard.dim, shard.dtype, shard.column) == (first.dim, first.dtype, first.column)
        if shard.stamps[0].suffix != first.stamps[0].suffix or (shard.rows and not is_alike):
            raise BadInput(
                f"{shard.name}: found {shard.dim:,} dimensions of {shard.dtype}, expected {first.dim:,} of"
                f" {first.dtype} as in the first shard {first.name}; write all shards alike, in one format"
            )

    def blocks(rows_per_block: int) -> Iterator[Array]:
        for shard in shards:
            yield from shard.blocks(rows_per_block)

    stamps = tuple(stamp for shard in shards for stamp in shard.stamps)
    rows = sum(shard.rows for shard in shards)
    return EmbeddingSource(label(path, first.column), rows, first.dim, first.dtype, blocks, first.column, stamps)


def _open_file(stamp: FileStamp, choice: ColumnChoice) -> EmbeddingSource:
    """Open one side from one file, in the format that its suffix names."""
    if stamp.suffix == ".parquet":
        return open_embedding_table(stamp, choice)
    if stamp.suffix == ".safetensors":
        return open_safetensors(stamp, choice)
    if stamp.suffix != ".npy":
        raise BadInput(
            f"{stamp.shown}: found {shown(stamp.suffix)}, expected .npy, .safetensors or .parquet,"
            " the same in all files of a folder; convert it, remove it, or make embeddings of texts with gcbs embed"
        )
    if choice.name is not None:
        raise BadInput(f"{stamp.shown}: found .npy, which has no columns; leave out --x-column and --y-column")
    return open_npy(stamp)


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
    is_tensor = torch is not None and isinstance(array, torch.Tensor)
    is_dense = isinstance(array, np.ndarray) and not np.ma.isMaskedArray(array)
    if is_tensor:
        is_dense = array.layout == torch.strided
    dtype = str(getattr(array, "dtype", "unknown type")).removeprefix("torch.")
    if not is_dense or dtype not in RAW_DTYPES:
        raise BadInput(
            f"{name}: found {type(array).__name__} of {dtype}, expected a dense array or tensor of"
            f" {ACCEPTED_TYPES}; convert it"
        )
    check_matrix(name, tuple(array.shape))
    rows, dim = array.shape
    if is_tensor:
        array = array.detach().cpu()
        if dtype == "bfloat16":
            array = array.view(torch.uint16)
    values = np.asarray(array).view(RAW_DTYPES[dtype])

    def blocks(rows_per_block: int) -> Iterator[Array]:
        for start in range(0, rows, rows_per_block):
            yield np.ascontiguousarray(values[start : start + rows_per_block])

    return EmbeddingSource(name, rows, dim, dtype, blocks)
