"""Opens the two sides of the pairs from the paths that the user gave: the suffix decides the format."""

import glob
import os
from typing import Final

from gcbs_cli.data.columns import ColumnChoice
from gcbs_cli.data.files import shown, stamp_file
from gcbs_cli.data.folders import list_folder
from gcbs_cli.data.npy import open_npy
from gcbs_cli.data.parquet import TABLE_SUFFIXES, open_parquet
from gcbs_cli.data.remote import is_remote, open_remote
from gcbs_cli.data.safetensors import open_safetensors
from gcbs_cli.data.shards import list_pattern, open_shards
from gcbs_cli.data.source import EmbeddingSource, check_pair
from gcbs_cli.system.errors import BadInput

SUFFIXES: Final = (".npy", ".parquet", ".safetensors", ".arrow", ".feather")
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
        return open_remote(path, lambda copy: open_side(copy, choice, dtype))
    if os.path.isdir(path):
        files = list_folder(path)
    elif glob.has_magic(path) and not os.path.lexists(path):
        files = list_pattern(path)
    else:
        return open_file(path, choice, dtype)
    _check_one_format(path, files)
    return open_shards(path, files, lambda file: open_file(file, choice, dtype))


def open_file(path: str, choice: ColumnChoice, dtype: str | None) -> EmbeddingSource:
    """Open one side from one file, in the format that its suffix names."""
    suffix = _suffix(path)
    if suffix in TABLE_SUFFIXES:
        return open_parquet(path, choice)
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


def _check_one_format(path: str, files: list[str]) -> None:
    """Refuse shards of several formats, and files among them that are none: to skip them could lose rows."""
    for file in files:
        suffix, first = _suffix(file), _suffix(files[0])
        if suffix not in SUFFIXES:
            raise BadInput(
                f"{shown(path)}: found {shown(os.path.basename(file))} in it, {_EXPECTED};"
                " remove it or give a pattern such as 'folder/*.npy'"
            )
        if suffix != first:
            raise BadInput(
                f"{shown(path)}: found shards of {first} and {suffix}, expected one format;"
                f" give a pattern such as 'folder/*{first}'"
            )


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()
