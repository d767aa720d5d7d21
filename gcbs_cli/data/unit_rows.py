"""Reads one side of the pairs into canonical unit rows, block by block, with its fingerprint and row checks."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from gcbs_cli.data.canonical import rows_per_slice
from gcbs_cli.data.normalise import UNIT_TOLERANCE, RowFaults, unit_rows_into
from gcbs_cli.data.row_list import RowList
from gcbs_cli.data.source import RAW_DTYPES, EmbeddingSource
from gcbs_cli.system.errors import BadInput, GcbsError
from gcbs_cli.system.limits import available_cpus

BLOCK_BYTES: Final = 8 * 1024 * 1024
"""Default size of the raw block that is in memory beside the result; larger ones are slower, being new memory."""


@dataclass(frozen=True)
class UnitRows:
    """One side of the pairs, ready for products.

    values: (rows, dim) float32, C-contiguous, unit rows. fingerprint: "xxh3:" and 32 hex digits over the element type,
    the shape and the raw rows, the same in every file format. dtype: the element type of the source. column: the one
    that was read, None where a file is one matrix.
    """

    values: NDArray[np.float32]
    fingerprint: str
    name: str
    paths: tuple[str, ...]
    dtype: str
    rows: int
    dim: int
    column: str | None = None


def read_unit_rows(
    source: EmbeddingSource,
    *,
    normalize: bool = True,
    block_bytes: int = BLOCK_BYTES,
    on_progress: Callable[[int], None] | None = None,
) -> UnitRows:
    """Read every row of `source` as float32 unit rows; the bits do not depend on block size or file format.

    A block is read and hashed while the cores normalise the one before it; memory: the result and the two, which take
    about `block_bytes` together. normalize=False takes the rows as they are, which must
    have norm 1 within 1e-2. on_progress is given the number of rows of each part that is done. Raises BadInput for
    rows with NaN or infinity, of zeros, or not of norm 1 (their count and the first ten), and for a file that changed
    meanwhile; GcbsError when the result does not fit into memory.
    """
    values = _allocate(source)
    digest = xxhash.xxh3_128(f"{source.dtype};{source.rows}x{source.dim};".encode())
    rows_per_block = max(1, block_bytes // (2 * source.dim * RAW_DTYPES[source.dtype].itemsize))
    faults = {"non_finite": RowList(), "zero": RowList(), "not_unit": RowList()}
    done = 0
    with _Normaliser(source.dtype, normalize, faults, on_progress) as normaliser:
        for block in source.blocks(rows_per_block):
            stop = done + len(block)
            if stop > source.rows:
                break
            digest.update(little_endian_bytes(block))
            normaliser.start(block, values[done:stop], done)
            done = stop
            del block  # or it would stay in memory while the next one is read
    check_count(source, done)
    refuse_faults(source, faults)
    fingerprint = "xxh3:" + digest.hexdigest()
    return UnitRows(
        values, fingerprint, source.name, source.paths, source.dtype, source.rows, source.dim, source.column
    )


class _Normaliser:
    """Normalises one block at a time on all cores, beside the thread that reads."""

    def __init__(
        self, dtype: str, normalize: bool, faults: dict[str, RowList], on_progress: Callable[[int], None] | None
    ) -> None:
        self._dtype, self._normalize, self._faults, self._on_progress = dtype, normalize, faults, on_progress
        self._pool = ThreadPoolExecutor(available_cpus())
        self._running: list[tuple[int, int, Future[RowFaults]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._finish()
        self._pool.shutdown()

    def start(self, raw: NDArray[Any], out: NDArray[np.float32], first: int) -> None:
        """Begin with a block whose first row is `first`, after the one before it is done."""
        self._finish()
        share = max(rows_per_slice(raw.shape[1]), -(-len(raw) // available_cpus()))
        for start in range(0, len(raw), share):
            part = slice(start, min(start + share, len(raw)))
            work = self._pool.submit(unit_rows_into, raw[part], self._dtype, out[part], normalize=self._normalize)
            self._running.append((first + start, part.stop - start, work))

    def _finish(self) -> None:
        running, self._running = self._running, []
        for first, count, work in running:
            found = work.result()
            self._faults["non_finite"].add(found.non_finite, first)
            self._faults["zero"].add(found.zero, first)
            if not self._normalize:
                self._faults["not_unit"].add(found.not_unit, first)
            if self._on_progress is not None:
                self._on_progress(count)


def _allocate(source: EmbeddingSource) -> NDArray[np.float32]:
    try:
        return np.empty((source.rows, source.dim), dtype=np.float32)
    except (MemoryError, ValueError):  # ValueError: more bytes than an address can count
        gib = source.rows * source.dim * 4 / 2**30
        raise GcbsError(
            f"{source.name}: found {source.rows:,} x {source.dim:,} embeddings, which need {gib:,.1f} GiB as float32,"
            " expected them to fit into memory; use a machine with more memory or fewer rows"
        ) from None


def check_count(source: EmbeddingSource, found: int) -> None:
    """Raise BadInput when a source had another number of rows than it declares."""
    if found != source.rows:
        raise BadInput(
            f"{source.name}: found {found:,} rows, expected the {source.rows:,} that it declares; write it again"
        )


def little_endian_bytes(block: NDArray[Any]) -> memoryview:
    """Return the bytes that the fingerprint is defined by (no copy on most machines)."""
    return block.astype(block.dtype.newbyteorder("<"), copy=False).reshape(-1).view(np.uint8).data


def refuse_faults(source: EmbeddingSource, faults: dict[str, RowList]) -> None:
    """Raise BadInput for the first kind of fault that any row has."""
    said = {
        "non_finite": ("with NaN or infinite values", "finite numbers; drop these pairs from both sides"),
        "zero": ("of zeros alone", "rows with a direction; drop these pairs from both sides"),
        "not_unit": (f"whose norm is not 1 within {UNIT_TOLERANCE}", "unit rows; leave out --no-normalize"),
    }
    for kind, (found, expected) in said.items():
        rows = faults[kind]
        if rows.count:
            place = source.locate(rows.first[0])
            where = f" (the first is {place})" if place else ""
            raise BadInput(f"{source.name}: found {rows} {found}{where}, expected {expected}")
