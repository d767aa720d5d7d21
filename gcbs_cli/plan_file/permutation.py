"""Permutations as files: the suffix decides the format, `-` is stdin or stdout."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xxhash
from numpy.typing import NDArray

from gcbs_cli.plan_file import npy_format, parquet_format, text_format
from gcbs_cli.plan_file.messages import wrong_length
from gcbs_cli.plan_file.writing import write
from gcbs_cli.system.errors import BadInput

SUFFIXES = (".npy", ".parquet", ".txt")
_NAMED_ROWS = 10

_READERS: dict[str, Callable[[BinaryIO, str, int | None], NDArray[np.int64]]] = {
    ".npy": npy_format.read,
    ".parquet": parquet_format.read,
    ".txt": text_format.read,
}


def check_suffix(path: Path | str) -> str:
    """The suffix that decides the format, in lower case; raises BadInput for any other than SUFFIXES."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        found = f"the suffix {suffix!r}" if suffix else "no suffix"
        raise BadInput(
            f"{path}: {found} names no permutation format; use {', '.join(SUFFIXES)}, a folder (plan/) or - for a pipe"
        )
    return suffix


def write_permutation(path: Path | str, perm: NDArray[np.int64], batch_size: int) -> None:
    """Write `perm`, (N,) int64, whole or not at all; `-` writes one index a line to stdout.

    Raises BadInput for an unknown suffix and GcbsError when the disk does not take it. BrokenPipeError passes through
    when the reader of stdout has gone.
    """
    perm = np.ascontiguousarray(perm, dtype=np.int64)
    if str(path) == "-":
        text_format.write_stdout(perm)
        return
    suffix = check_suffix(path)

    def fill(file: BinaryIO) -> None:
        if suffix == ".npy":
            npy_format.write(file, perm)
        elif suffix == ".parquet":
            parquet_format.write(file, perm, batch_size)
        else:
            text_format.write(file, perm)

    write(path, fill)


def read_permutation(path: Path | str, rows: int | None = None) -> NDArray[np.int64]:
    """Read a permutation, (N,) int64; `-` reads one index a line from stdin, a folder is read shard after shard.

    With `rows` it is verified to be a permutation of 0..rows-1, and reading stops early when it is too long.
    Raises BadInput for a file that is missing, damaged or of another type or shape; nothing is ever unpickled.
    """
    from gcbs_cli.plan_file.shards import is_folder, read_folder  # its manifest needs this module

    if str(path) == "-":
        perm = text_format.read_stdin(rows)
        source = "stdin"
    elif is_folder(path):
        source = str(path)
        perm = read_folder(Path(path), rows)
    else:
        reader = _READERS[check_suffix(path)]
        source = str(path)
        perm = _read_file(Path(path), lambda file: reader(file, source, rows))
    if rows is not None:
        verify_permutation(perm, rows, source)
    return perm


def permutation_hash(perm: NDArray[np.int64]) -> str:
    """The same for the same order, whatever the file's format: xxh3 (128 bits) of the little-endian int64 bytes."""
    return "xxh3:" + xxhash.xxh3_128_hexdigest(np.ascontiguousarray(perm, dtype="<i8").data)


def verify_permutation(perm: NDArray[Any], rows: int, source: str = "permutation") -> None:
    """Raises BadInput, naming what is wrong, unless `perm` holds each of 0..rows-1 exactly once."""
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
        raise wrong_length(source, len(perm), rows)


def _named(perm: NDArray[Any], wrong: NDArray[np.bool_], several: str, one: str) -> str:
    """How many are wrong and the first ten, each with its position: "2 indices (7 at position 0, …)"."""
    positions = np.flatnonzero(wrong)
    first = ", ".join(f"{perm[p]} at position {p}" for p in positions[:_NAMED_ROWS].tolist())
    more = ", …" if positions.size > _NAMED_ROWS else ""
    return f"{positions.size} {one if positions.size == 1 else several} ({first}{more})"


def _read_file(path: Path, read: Callable[[BinaryIO], NDArray[np.int64]]) -> NDArray[np.int64]:
    try:
        if path.exists() and not path.is_file():
            raise BadInput(f"{path}: is not a regular file; name a permutation file, or - for stdin")
        with path.open("rb") as file:
            return read(file)
    except FileNotFoundError as error:
        raise BadInput(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
