"""Reads the sides of the pairs as unit rows: whole, or both block by block, with fingerprints and row checks."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import xxhash
from numpy.typing import NDArray

from gcbs_cli.data.files import open_unchanged
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.source import NAMED, RAW_DTYPES, EmbeddingSource
from gcbs_cli.system.arrays import Array, Float32s, Floats, Ints
from gcbs_cli.system.errors import BadInput, GcbsError
from gcbs_cli.system.threads import in_order, in_parts

SLICE_BYTES = 1024 * 1024
"""Size of one float64 work buffer: small enough that a few of them stay in a core's cache."""

UNIT_TOLERANCE = 1e-2
"""How far from 1 the norm of a row may be that is said to be normalised: float16 and bfloat16 rounding stays below."""

_LEAST_NORM2 = 1e-200
"""A row with a smaller squared norm counts as zeros: near float64's least numbers it would lose digits."""

BLOCK_BYTES = 4 * 1024 * 1024
"""Default size of a block of raw rows; larger ones are slower, being new memory."""

ROWS_OF_RAW_BLOCK = 4096


class RowFault(IntEnum):
    """Why a row cannot be a unit row."""

    NON_FINITE = 1
    ZERO = 2
    NOT_UNIT = 3


_FAULTS = {
    RowFault.NON_FINITE: (
        "with NaN, infinite or missing numbers or of another length",
        "as many finite numbers in each row; drop these pairs from both sides",
    ),
    RowFault.ZERO: ("of zeros alone", "rows with a direction; drop these pairs from both sides"),
    RowFault.NOT_UNIT: (f"whose norm is not 1 within {UNIT_TOLERANCE}", "unit rows; leave out --no-normalize"),
}
"""What messages say of rows with a fault, and of rows without it."""


def unit_rows_into(raw: Array, dtype: str, out: Float32s, *, normalize: bool) -> NDArray[np.uint8]:
    """Write the rows of `raw` to `out` as float32, divided by their norms if `normalize`; return the fault of each.

    raw: (n, d), bfloat16 as uint16 bits; out: (n, d) float32. The norm is taken in float64 by `sum_by_halving`, and
    the quotient is rounded once to float32, so the bits depend on the row alone. Rows with a fault, a RowFault in the
    (n,) that comes back, hold anything. NOT_UNIT is looked for where rows are taken as they are.
    """
    faults = np.zeros(len(raw), np.uint8)

    def convert(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):
            # Of one piece: freed one by one, they would go back to the system and be cleared anew each time.
            wide, squares = np.empty((2, stop - start, raw.shape[1]))
            wide[:] = as_floats(raw[start:stop], dtype)
            norm2 = sum_by_halving(np.multiply(wide, wide, out=squares))
            norm = np.sqrt(norm2)
            part = faults[start:stop]
            if normalize:
                wide /= norm[:, np.newaxis]
            else:
                part[np.abs(norm - 1) > UNIT_TOLERANCE] = RowFault.NOT_UNIT
            part[norm2 < _LEAST_NORM2] = RowFault.ZERO
            part[~np.isfinite(norm2)] = RowFault.NON_FINITE
            out[start:stop] = wide

    in_parts(len(raw), max(1, SLICE_BYTES // (8 * raw.shape[1])), convert)
    return faults


def sum_by_halving(work: Floats) -> Floats:
    """(n,) sums of the rows of `work` (n, d), which is overwritten, in one fixed order on every machine.

    The order: pad d with zeros to a power of two, then add the upper half to the lower half, elementwise, until one
    column is left. Elementwise additions alone make numpy, torch and compiled loops give the same float64 bits.
    """
    filled = work.shape[1]
    while filled > 1:
        half = 1 << ((filled - 1).bit_length() - 1)
        # The zeros that would pad the upper half need not be added: they change nothing.
        lower = work[:, : filled - half]
        np.add(lower, work[:, half:filled], out=lower)
        filled = half
    return work[:, 0] + 0.0  # -0.0 becomes 0.0, as it does where zeros are added


def as_floats(raw: Array, dtype: str) -> Array:
    """Return raw rows as numbers: bfloat16 is the upper half of a float32."""
    return (raw.astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else raw


@dataclass
class UnitRowBlocks:
    """The unit rows of a source block by block; the bits do not depend on block size or file format."""

    source: EmbeddingSource
    normalize: bool = True
    """False takes the rows as they are, which must have norm 1 within 1e-2."""
    block_bytes: int = BLOCK_BYTES
    """Raw rows in memory."""
    values: Float32s | None = None
    """(rows, dim), whose parts the blocks then are; otherwise each is a new array."""
    fingerprint: str = ""
    """Of all rows, once read: "xxh3:" and 32 hex digits over the element type, the shape and the raw rows.

    It is the same in every file format.
    """

    def __iter__(self) -> Iterator[Float32s]:
        """Yield blocks of (n, d) float32 unit rows.

        Raises BadInput after the last one for rows with NaN or infinity, of zeros, or not of norm 1 (their count and
        the first ten), and for a file that changed meanwhile.
        """
        source = self.source
        digest = xxhash.xxh3_128(f"{source.dtype};{source.rows}x{source.dim};".encode())
        faults = [np.empty(0, np.uint8)]
        row_bytes = source.dim * RAW_DTYPES[source.dtype].itemsize
        done = 0
        for raw in source.blocks(max(1, self.block_bytes // row_bytes)):
            start = done
            done += len(raw)
            if done > source.rows:
                break
            digest.update(raw.astype(raw.dtype.newbyteorder("<"), copy=False).data)
            rows = np.empty(raw.shape, np.float32) if self.values is None else self.values[start:done]
            faults.append(unit_rows_into(raw, source.dtype, rows, normalize=self.normalize))
            del raw  # or it would stay in memory while the next one is read
            yield rows
        if done != source.rows:
            raise BadInput(
                f"{source.name}: found {done:,} rows, expected the {source.rows:,} that it declares; write it again"
            )
        _refuse(source, np.concatenate(faults))
        self.fingerprint = "xxh3:" + digest.hexdigest()

    def read(self) -> Float32s:
        """Return every row, (rows, dim) float32, C-contiguous; memory: these and `block_bytes`.

        Raises BadInput as the blocks do, and GcbsError when the rows do not fit into memory.
        """
        source = self.source
        try:
            self.values = np.empty((source.rows, source.dim), dtype=np.float32)
        except (MemoryError, ValueError):  # ValueError: more bytes than an address can count
            gib = source.rows * source.dim * 4 / 2**30
            raise GcbsError(
                f"{source.name}: found {source.rows:,} x {source.dim:,} embeddings, which need {gib:,.1f} GiB as"
                " float32, expected them to fit in memory; use fewer rows or a machine with more memory"
            ) from None
        for _ in self:
            pass
        return self.values


def _refuse(source: EmbeddingSource, faults: NDArray[np.uint8]) -> None:
    """Raise BadInput where rows have a fault, with their count and the first ten."""
    for fault, (what, expected) in _FAULTS.items():
        rows = np.flatnonzero(faults == fault).tolist()
        if not rows:
            continue
        count = "1 row (number" if len(rows) == 1 else f"{len(rows):,} rows (numbers"
        numbers = ", ".join(map(str, rows[:NAMED])) + ", …" * (len(rows) > NAMED)
        place = source.locate(rows[0])
        if place:
            what += f" (the first is {place})"
        raise BadInput(f"{source.name}: found {count} {numbers}, counted from 0) {what}, expected {expected}")


@dataclass
class PairStream:
    """The two opened sources of the pairs, read whole or block by block, as often as needed.

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
    def sources(self) -> tuple[EmbeddingSource, EmbeddingSource]:
        """Both sides."""
        return self.x, self.y

    def check_unchanged(self) -> None:
        """Raise BadInput when a file is no longer what was opened."""
        for stamp in (*self.x.stamps, *self.y.stamps):
            with open_unchanged(stamp):
                pass

    def read(self) -> PairedRows:
        """Read every row of both sides at once. Raises BadInput and GcbsError as `UnitRowBlocks` does."""
        x, y = self._sides()
        pairs = PairedRows(*in_order(2, (x, y), UnitRowBlocks.read))
        self.fingerprints = x.fingerprint, y.fingerprint
        return pairs

    def read_rows(self, rows: Ints) -> Float32s:
        """(2, n, d) the unit rows of both sides with these numbers, which rise; all are checked and fingerprinted."""
        sides = np.empty((2, len(rows), self.dim), np.float32)
        for start, *blocks in self.blocks():
            first, stop = np.searchsorted(rows, [start, start + len(blocks[0])])
            for side, block in zip(sides, blocks, strict=True):
                side[first:stop] = block[rows[first:stop] - start]
        return sides

    def read_raw(self) -> PairedRows:
        """The rows in float32 as the data has them, whatever their norms."""
        blocks = [
            [as_floats(raw, side.dtype).astype(np.float32) for raw in side.blocks(ROWS_OF_RAW_BLOCK)]
            for side in self.sources
        ]
        return PairedRows(*map(np.concatenate, blocks))

    def blocks(self) -> Iterator[tuple[int, Float32s, Float32s]]:
        """Yield the first row of a block and its unit rows of both sides, (n, d) float32 each.

        Blocks are cut to the same rows: shards of the two sides may end at different places.
        Raises BadInput for rows that cannot be unit rows and for files that differ from an earlier pass.
        """
        x, y = self._sides()
        y_blocks = iter(y)
        y_rows = np.empty((0, self.dim), np.float32)
        start = 0
        for x_rows in x:
            count = len(x_rows)
            while len(y_rows) < count:
                y_rows = np.concatenate([y_rows, next(y_blocks)])
            yield start, x_rows, y_rows[:count]
            start += count
            y_rows = y_rows[count:]
        for _ in y_blocks:  # what it refuses, it refuses after its last block
            pass
        fingerprints = x.fingerprint, y.fingerprint
        if self.fingerprints not in (("", ""), fingerprints):
            raise BadInput(
                f"{self.x.name}, {self.y.name}: changed between two passes; run again when they are complete"
            )
        self.fingerprints = fingerprints

    def _sides(self) -> list[UnitRowBlocks]:
        return [UnitRowBlocks(side, self.normalize, self.block_bytes) for side in self.sources]


def mean_rows(x: Float32s, y: Float32s) -> Float32s:
    """Return (n, d) the unit mean of both sides; that of x alone where they cancel out."""
    means = np.empty_like(x)
    opposite = unit_rows_into(x + y, "float32", means, normalize=True) == RowFault.ZERO
    means[opposite] = x[opposite]
    return means
