"""Opens the two sides of the pairs from the paths that the user gave: the suffix decides the format."""

import glob
import os
from collections.abc import Iterator
from typing import Any, Final

from numpy.typing import NDArray

from gcbs_cli.data.columns import ColumnChoice
from gcbs_cli.data.files import shown, stamp_file
from gcbs_cli.data.folders import list_folder, list_pattern
from gcbs_cli.data.npy import open_npy
from gcbs_cli.data.remote import fetched, is_remote
from gcbs_cli.data.safetensors import open_safetensors
from gcbs_cli.data.source import EmbeddingSource, check_pair
from gcbs_cli.data.tables import TABLE_SUFFIXES, open_embedding_table
from gcbs_cli.system.errors import BadInput

SUFFIXES: Final = (".npy", ".safetensors", *TABLE_SUFFIXES)
"""The formats that are read."""

_EXPECTED: Final = "expected .npy, .parquet, .safetensors, .arrow or .feather"


def open_pair(
    x: str,
    y: str | None,
    *,
    x_column: str | None = None,
    y_column: str | None = None,
    dtype: str | None = None,
    planned: tuple[str | None, str | None] = (None, None),
) -> tuple[EmbeddingSource, EmbeddingSource]:
    """Open both sides and check their headers against each other, before any data is read.

    x, y: a file, a directory or a glob pattern of files; without y, x holds both sides as columns or tensors "x" and
    "y". x_column, y_column: other names for them. dtype: "bfloat16" for `.npy` files that cannot say so themselves.
    planned: the columns of a plan made before, taken where none is named and the files have them.
    Raises BadInput, one line, for anything that cannot be read as (N, d) floats with N >= 2 and equal shapes.
    """
    if dtype not in (None, "bfloat16"):
        raise BadInput(f"--dtype: found {shown(str(dtype))}, expected bfloat16; other types are declared by the files")
    both = y is None
    sides = (
        open_side(x, ColumnChoice("x", x_column, both, planned[0]), dtype),
        open_side(x if y is None else y, ColumnChoice("y", y_column, both, planned[1]), dtype),
    )
    check_pair(*sides)
    return sides


def open_side(path: str, choice: ColumnChoice, dtype: str | None = None) -> EmbeddingSource:
    """Open one side from a file, or from all files of a directory or glob pattern, here or at a remote address."""
    if is_remote(path):
        return fetched(path, lambda copy: _open_here(copy, choice, dtype))
    return _open_here(path, choice, dtype)


def _open_here(path: str | list[str], choice: ColumnChoice, dtype: str | None) -> EmbeddingSource:
    """Open a path, or the files that a pattern matched elsewhere."""
    if isinstance(path, list):
        return _open_shards(os.path.commonpath(path), path, choice, dtype)
    if os.path.isdir(path):
        return _open_shards(path, list_folder(path), choice, dtype)
    if glob.has_magic(path) and not os.path.lexists(path):
        return _open_shards(path, list_pattern(path), choice, dtype)
    return open_file(path, choice, dtype)


def open_file(path: str, choice: ColumnChoice, dtype: str | None) -> EmbeddingSource:
    """Open one side from one file, in the format that its suffix names."""
    suffix = _suffix(path)
    if suffix in TABLE_SUFFIXES:
        return open_embedding_table(path, choice)
    if suffix == ".safetensors":
        return open_safetensors(path, choice)
    stamp_file(path)  # a missing file is said to be missing, whatever its suffix
    if suffix == ".npz":
        raise BadInput(f"{shown(path)}: found .npz, {_EXPECTED}; save each array with numpy.save as its own .npy")
    if suffix != ".npy":
        found = f"the suffix {shown(suffix)}" if suffix else "no suffix"
        raise BadInput(f"{shown(path)}: found {found}, {_EXPECTED}; convert it or rename it")
    if choice.holds_both:
        raise BadInput(f"{shown(path)}: found one array, expected both sides; give the file with Y as second argument")
    if choice.wanted is not None:
        raise BadInput(f"{shown(path)}: found .npy, which has no columns, expected no {choice.option}; leave it out")
    return open_npy(path, dtype)


def _open_shards(path: str, files: list[str], choice: ColumnChoice, dtype: str | None) -> EmbeddingSource:
    """Open files as one matrix, one after the other.

    Raises BadInput for files of several formats or of none (to skip them could lose rows), and for one whose width,
    element type or column is not that of the first.
    """
    for file in files:
        suffix, expected = _suffix(file), _suffix(files[0])
        if suffix not in SUFFIXES:
            raise BadInput(
                f"{shown(path)}: found {shown(os.path.basename(file))} in it, {_EXPECTED};"
                " remove it or give a pattern such as 'folder/*.npy'"
            )
        if suffix != expected:
            raise BadInput(
                f"{shown(path)}: found shards of {expected} and {suffix}, expected one format;"
                f" give a pattern such as 'folder/*{expected}'"
            )
    shards = tuple(open_file(file, choice, dtype) for file in files)
    first = next((shard for shard in shards if shard.rows), shards[0])  # an empty one may not know its width
    for shard in shards:
        _check_alike(shard, first)

    def blocks(rows_per_block: int) -> Iterator[NDArray[Any]]:
        for shard in shards:
            yield from shard.blocks(rows_per_block)

    return EmbeddingSource(
        shown(path) if first.column is None else f"{shown(path)}:{shown(first.column)}",
        sum(shard.rows for shard in shards),
        first.dim,
        first.dtype,
        blocks,
        first.column,
        tuple(stamp for shard in shards for stamp in shard.stamps),
        tuple(path for shard in shards for path in shard.paths),
        shards,
    )


def _check_alike(shard: EmbeddingSource, first: EmbeddingSource) -> None:
    for found, expected, differ in (
        (f"{shard.dim:,} dimensions", f"{first.dim:,}", shard.dim != first.dim and bool(shard.rows or shard.dim)),
        (shard.dtype, first.dtype, shard.dtype != first.dtype),
        (f"column {shown(str(shard.column))}", shown(str(first.column)), shard.column != first.column),
    ):
        if differ:
            raise BadInput(
                f"{shard.name}: found {found}, expected {expected} as in the first shard {first.name};"
                " write all shards alike"
            )


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()
