"""Permutations as files: the suffix decides the format, `-` is stdin or stdout, a folder holds shards."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.files import shown
from gcbs_cli.plan_file import formats
from gcbs_cli.plan_file.shards import is_folder, read_folder
from gcbs_cli.plan_file.writing import write
from gcbs_cli.system.errors import BadInput

_NAMED_ROWS: Final = 10

_READERS: Final[dict[str, Callable[[str, int | None], NDArray[np.int64]]]] = {
    ".npy": formats.read_npy,
    ".parquet": formats.read_parquet,
    ".txt": formats.read_text_file,
}
SUFFIXES: Final = tuple(_READERS)


def check_suffix(path: Path | str) -> str:
    """Return the suffix that decides the format, in lower case. Raises BadInput for any other than SUFFIXES."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        found = f"the suffix {shown(suffix)}" if suffix else "no suffix"
        raise BadInput(
            f"{shown(str(path))}: {found} names no permutation format; use {', '.join(SUFFIXES)}, a folder (plan/) or -"
            " for a pipe"
        )
    return suffix


def write_permutation(path: Path | str, perm: NDArray[np.int64], batch_size: int) -> None:
    """Write `perm`, (N,) int64, whole or not at all; `-` writes one index a line to stdout.

    Raises BadInput for an unknown suffix and GcbsError when the disk does not take it. BrokenPipeError passes through
    when the reader of stdout has gone.
    """
    perm = np.ascontiguousarray(perm, dtype=np.int64)
    if str(path) == "-":
        formats.write_stdout(perm)
        return
    fill: dict[str, Callable[[BinaryIO], None]] = {
        ".npy": lambda file: formats.write_npy(file, perm),
        ".parquet": lambda file: formats.write_parquet(file, perm, batch_size),
        ".txt": lambda file: formats.write_text(file, perm),
    }
    write(path, fill[check_suffix(path)])


def read_permutation(path: Path | str, rows: int | None = None) -> NDArray[np.int64]:
    """Read a permutation, (N,) int64; `-` reads one index a line from stdin, a folder is read shard after shard.

    With `rows` it is verified to be a permutation of 0..rows-1, and a text stops being read when it is too long.
    Raises BadInput for a file that is missing, damaged or of another type or shape; nothing is ever unpickled.
    """
    source = formats.STDIN if str(path) == "-" else shown(str(path))
    if str(path) == "-":
        perm = formats.read_stdin(rows)
    elif is_folder(path):
        perm = read_folder(Path(path))
    else:
        perm = _READERS[check_suffix(path)](str(path), rows)
    if rows is not None:
        verify_permutation(perm, rows, source)
    return perm


def verify_permutation(perm: NDArray[Any], rows: int, source: str = "permutation") -> None:
    """Raise BadInput, naming what is wrong, unless `perm` holds each of 0..rows-1 exactly once."""
    if perm.ndim != 1 or perm.dtype.kind not in "iu":
        raise BadInput(f"{source}: expected a 1-D array of integers, got shape {perm.shape} of {perm.dtype}")
    if (perm < 0).any():
        raise BadInput(f"{source}: {_named(perm, perm < 0, 'negative indices', 'negative index')}; they start at 0")
    if (perm >= rows).any():
        wrong = _named(perm, perm >= rows, "indices", "index")
        raise BadInput(f"{source}: {wrong} outside 0..{rows - 1}; was the plan made for other data?")
    counts = np.bincount(perm, minlength=rows)
    twice = np.flatnonzero(counts > 1)
    if twice.size:
        first = ", ".join(map(str, twice[:_NAMED_ROWS].tolist())) + (", …" if twice.size > _NAMED_ROWS else "")
        rows_appear = "1 row appears" if twice.size == 1 else f"{twice.size} rows appear"
        raise BadInput(f"{source}: {rows_appear} more than once: {first}; a plan holds each row once")
    if len(perm) != rows:
        raise formats.wrong_length(source, len(perm), rows)


def _named(perm: NDArray[Any], wrong: NDArray[np.bool_], several: str, one: str) -> str:
    """How many are wrong and the first ten, each with its position: "2 indices (7 at position 0, …)"."""
    positions = np.flatnonzero(wrong)
    first = ", ".join(f"{perm[p]} at position {p}" for p in positions[:_NAMED_ROWS].tolist())
    more = ", …" if positions.size > _NAMED_ROWS else ""
    return f"{positions.size} {one if positions.size == 1 else several} ({first}{more})"
