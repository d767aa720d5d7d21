"""Reads the sides of the pairs as unit rows: whole, or both block by block, with fingerprints and row checks."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from gcbs_cli.data.files import check_still_the_same
from gcbs_cli.data.normalise import UNIT_TOLERANCE, RowFaults, rows_per_slice, unit_rows_into
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.source import RAW_DTYPES, EmbeddingSource, RowList
from gcbs_cli.system.errors import BadInput, GcbsError
from gcbs_cli.system.limits import available_cpus

BLOCK_BYTES: Final = 8 * 1024 * 1024
"""Default size of the raw blocks in memory at once; larger ones are slower, being new memory."""

_BLOCKS_AT_ONCE: Final = 2
"""One is read while the other is normalised."""

Rows = NDArray[np.float32]
Sources = tuple[EmbeddingSource, EmbeddingSource]


@dataclass(frozen=True)
class UnitRows:
    """One side of the pairs, ready for products.

    values: (rows, dim) float32, C-contiguous, unit rows. fingerprint: "xxh3:" and 32 hex digits over the element type,
    the shape and the raw rows, the same in every file format.
    """

    values: Rows
    fingerprint: str


@dataclass(frozen=True)
class ReadPair:
    """Both sides as they were read, with the sources and fingerprints that a manifest names."""

    unit: PairedRows
    sources: Sources
    fingerprints: tuple[str, str]

    def check_unchanged(self) -> None:
        """Raise BadInput when a file is no longer what was read."""
        _check_unchanged(self.sources)


class UnitRowBlocks:
    """The unit rows of a source block by block: a block is read and hashed while the cores normalise the one before it.

    The bits do not depend on block size or file format. `fingerprint`: of all rows, once all have been read.
    normalize=False takes the rows as they are, which must have norm 1 within 1e-2. block_bytes: raw rows in memory.
    """

    def __init__(
        self,
        source: EmbeddingSource,
        *,
        normalize: bool = True,
        block_bytes: int = BLOCK_BYTES,
        new: Callable[[int, int], Rows] | None = None,
    ) -> None:
        """`new`: gives the array (n, d) for rows start to stop; a fresh one otherwise."""
        self.source, self.normalize = source, normalize
        row_bytes = source.dim * RAW_DTYPES[source.dtype].itemsize
        self._rows_per_block = max(1, block_bytes // (_BLOCKS_AT_ONCE * row_bytes))
        self._new = new or (lambda start, stop: np.empty((stop - start, source.dim), np.float32))
        self._non_finite, self._zero, self._not_unit = RowList(), RowList(), RowList()
        self.fingerprint = ""

    def __iter__(self) -> Iterator[Rows]:
        """Yield blocks of (n, d) float32 unit rows.

        Raises BadInput after the last one for rows with NaN or infinity, of zeros, or not of norm 1 (their count and
        the first ten), and for a file that changed meanwhile.
        """
        source, done = self.source, 0
        digest = xxhash.xxh3_128(f"{source.dtype};{source.rows}x{source.dim};".encode())
        waiting: _Normalised | None = None
        with ThreadPoolExecutor(available_cpus()) as pool:
            for raw in source.blocks(self._rows_per_block):
                stop = done + len(raw)
                if stop > source.rows:
                    break
                digest.update(raw.astype(raw.dtype.newbyteorder("<"), copy=False).reshape(-1).view(np.uint8).data)
                if waiting is not None:
                    yield self._finished(waiting)
                waiting = self._start(pool, raw, done)
                done = stop
                del raw  # or it would stay in memory while the next one is read
            if waiting is not None:
                yield self._finished(waiting)
        if done != source.rows:
            raise BadInput(
                f"{source.name}: found {done:,} rows, expected the {source.rows:,} that it declares; write it again"
            )
        self._refuse_faults()
        self.fingerprint = "xxh3:" + digest.hexdigest()

    def _start(self, pool: ThreadPoolExecutor, raw: NDArray[Any], first: int) -> "_Normalised":
        rows = self._new(first, first + len(raw))
        share = max(rows_per_slice(raw.shape[1]), -(-len(raw) // available_cpus()))
        parts = [slice(start, start + share) for start in range(0, len(raw), share)]
        work = [
            pool.submit(unit_rows_into, raw[part], self.source.dtype, rows[part], normalize=self.normalize)
            for part in parts
        ]
        return _Normalised(rows, [(first + part.start, one) for part, one in zip(parts, work, strict=True)])

    def _finished(self, block: "_Normalised") -> Rows:
        for first, work in block.parts:
            found = work.result()
            self._non_finite.add(found.non_finite, first)
            self._zero.add(found.zero, first)
            if not self.normalize:
                self._not_unit.add(found.not_unit, first)
        block.parts.clear()  # they hold the raw rows
        return block.rows

    def _refuse_faults(self) -> None:
        """Raise BadInput for the first kind of fault that any row has."""
        drop = "drop these pairs from both sides"
        for rows, found, expected in (
            (self._non_finite, "with NaN or infinite values", f"finite numbers; {drop}"),
            (self._zero, "of zeros alone", f"rows with a direction; {drop}"),
            (self._not_unit, f"whose norm is not 1 within {UNIT_TOLERANCE}", "unit rows; leave out --no-normalize"),
        ):
            if rows.count:
                place = self.source.locate(rows.first[0])
                where = f" (the first is {place})" if place else ""
                raise BadInput(f"{self.source.name}: found {rows} {found}{where}, expected {expected}")


@dataclass
class _Normalised:
    """A block on its way, and the first row and the faults of each of its parts."""

    rows: Rows
    parts: list[tuple[int, Future[RowFaults]]]


def read_unit_rows(
    source: EmbeddingSource,
    *,
    normalize: bool = True,
    block_bytes: int = BLOCK_BYTES,
    on_progress: Callable[[int], None] | None = None,
) -> UnitRows:
    """Read every row of `source`; memory: the result and `block_bytes`. See `UnitRowBlocks`.

    on_progress is given the number of rows of each block that is done. Raises BadInput as `UnitRowBlocks` does, and
    GcbsError when the result does not fit into memory.
    """
    try:
        values = np.empty((source.rows, source.dim), dtype=np.float32)
    except (MemoryError, ValueError):  # ValueError: more bytes than an address can count
        gib = source.rows * source.dim * 4 / 2**30
        raise GcbsError(
            f"{source.name}: found {source.rows:,} x {source.dim:,} embeddings, which need {gib:,.1f} GiB as float32,"
            " expected them to fit into memory; use a machine with more memory or fewer rows"
        ) from None
    blocks = UnitRowBlocks(
        source, normalize=normalize, block_bytes=block_bytes, new=lambda start, stop: values[start:stop]
    )
    for block in blocks:
        if on_progress is not None:
            on_progress(len(block))
    return UnitRows(values, blocks.fingerprint)


def read_pair(sources: Sources, *, normalize: bool = True) -> ReadPair:
    """Read every row of both sides. Raises BadInput and GcbsError as `read_unit_rows` does."""
    x, y = (read_unit_rows(source, normalize=normalize) for source in sources)
    return ReadPair(PairedRows(x.values, y.values), sources, (x.fingerprint, y.fingerprint))


@dataclass
class PairStream:
    """The two opened sources of the pairs, read block by block, as often as is asked.

    `fingerprints`: of both sides once a pass has ended, "" before; a later pass that reads other bytes is an error.
    """

    x: EmbeddingSource
    y: EmbeddingSource
    normalize: bool = True
    block_bytes: int = BLOCK_BYTES
    fingerprints: tuple[str, str] = ("", "")

    @property
    def rows(self) -> int:
        """N."""
        return self.x.rows

    @property
    def dim(self) -> int:
        """d."""
        return self.x.dim

    @property
    def sources(self) -> Sources:
        """Both sides."""
        return self.x, self.y

    def check_unchanged(self) -> None:
        """Raise BadInput when a file is no longer what was opened."""
        _check_unchanged(self.sources)

    def blocks(self) -> Iterator[tuple[int, Rows, Rows]]:
        """Yield the first row of a block and its unit rows of both sides, (n, d) float32 each.

        Raises BadInput for rows that cannot be unit rows and for files that differ from an earlier pass.
        """
        x, y = (UnitRowBlocks(side, normalize=self.normalize, block_bytes=self.block_bytes) for side in self.sources)
        yield from _in_step(iter(x), iter(y))
        found = x.fingerprint, y.fingerprint
        if self.fingerprints not in (("", ""), found):
            raise BadInput(
                f"{self.x.name}, {self.y.name}: changed between two passes; run again when they are complete"
            )
        self.fingerprints = found


def mean_rows(x: Rows, y: Rows) -> Rows:
    """Return (n, d) the unit mean of both sides; that of x alone where they cancel out."""
    means = np.empty_like(x)
    opposite = unit_rows_into(x + y, "float32", means, normalize=True).zero
    means[opposite] = x[opposite]
    return means


def _check_unchanged(sources: Sources) -> None:
    for source in sources:
        for stamp in source.stamps:
            check_still_the_same(stamp)


def _in_step(x_blocks: Iterator[Rows], y_blocks: Iterator[Rows]) -> Iterator[tuple[int, Rows, Rows]]:
    """Cut the blocks of both sides to the same rows: shards of the two sides may end at different places."""
    start = 0
    left: Rows | None = None
    right: Rows | None = None
    while True:
        left = next(x_blocks, None) if left is None else left
        right = next(y_blocks, None) if right is None else right
        if left is None or right is None:
            return
        count = min(len(left), len(right))
        if count:
            yield start, left[:count], right[:count]
        start += count
        left = left[count:] if count < len(left) else None
        right = right[count:] if count < len(right) else None
