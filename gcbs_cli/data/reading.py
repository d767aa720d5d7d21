"""Reads the sides of the pairs as unit rows: whole, or both block by block, with fingerprints and row checks."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xxhash

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.source import NAMED, RAW_DTYPES, EmbeddingSource
from gcbs_cli.system.arrays import Array, Bools, Float32s, Floats, Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.threads import in_order, in_parts

SLICE_BYTES = 1024 * 1024
"""Size of one float64 work buffer: small enough that a few of them stay in a core's cache."""

UNIT_TOLERANCE = 1e-2
"""How far from 1 the norm of a row may be that is said to be normalised: float16 and bfloat16 rounding stays below."""

_LEAST_NORM2 = 1e-200
"""A row with a smaller squared norm counts as zeros: near float64's least numbers it would lose digits."""

BLOCK_BYTES = 4 * 1024 * 1024
"""Default size of a block of raw rows; larger ones are slower, being new memory."""


def unit_rows_into(raw: Array, out: Float32s, *, normalize: bool) -> Bools:
    """Write the rows of `raw` to `out` as float32, divided by their norms if `normalize`; return which have a fault.

    raw: (n, d), bfloat16 as uint16 bits; out: (n, d) float32. The norm is taken in float64 by `sum_by_halving`, and
    the quotient is rounded once to float32, so the bits depend on the row alone. Rows with a fault hold anything: those
    of zeros or with a number that is not finite, and where rows are taken as they are those whose norm is not 1.
    """
    faulty = np.empty(len(raw), bool)

    def convert(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):
            # Of one piece: freed one by one, they would go back to the system and be cleared anew each time.
            wide, squares = np.empty((2, stop - start, raw.shape[1]))
            wide[:] = as_floats(raw[start:stop])
            norm2 = sum_by_halving(np.multiply(wide, wide, out=squares))
            norm = np.sqrt(norm2)
            if normalize:
                wide /= norm[:, np.newaxis]
                is_unit = np.isfinite(norm2) & (norm2 >= _LEAST_NORM2)
            else:
                is_unit = np.abs(norm - 1) <= UNIT_TOLERANCE
            faulty[start:stop] = ~is_unit
            out[start:stop] = wide

    in_parts(len(raw), max(1, SLICE_BYTES // (8 * raw.shape[1])), convert)
    return faulty


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


def as_floats(raw: Array) -> Array:
    """Return raw rows as numbers: bfloat16, which comes as uint16, is the upper half of a float32."""
    return (raw.astype(np.uint32) << 16).view(np.float32) if raw.dtype == np.uint16 else raw


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

        Raises BadInput after the last one for rows with a fault (their count and the first ten), and for a file that
        changed meanwhile.
        """
        source = self.source
        digest = xxhash.xxh3_128(f"{source.dtype};{source.rows}x{source.dim};".encode())
        faulty = [np.empty(0, bool)]
        row_bytes = source.dim * RAW_DTYPES[source.dtype].itemsize
        done = 0
        for raw in source.blocks(max(1, self.block_bytes // row_bytes)):
            start = done
            done += len(raw)
            if done > source.rows:
                break
            digest.update(raw.data)
            rows = np.empty(raw.shape, np.float32) if self.values is None else self.values[start:done]
            faulty.append(unit_rows_into(raw, rows, normalize=self.normalize))
            del raw  # or it would stay in memory while the next one is read
            yield rows
        if done != source.rows:
            raise BadInput(
                f"{source.name}: found {done:,} rows, expected the {source.rows:,} that it declares; write it again"
            )
        numbers = np.flatnonzero(np.concatenate(faulty)).tolist()
        if numbers:
            fault = f"a norm that is not 1 within {UNIT_TOLERANCE}; leave out --no-normalize, or"
            if self.normalize:
                fault = "zeros alone, NaN, infinite or missing numbers, or another length;"
            raise BadInput(
                f"{source.name}: rows {', '.join(map(str, numbers[:NAMED]))} ({len(numbers):,} in all, counted from 0):"
                f" found {fault} drop these pairs from both sides"
            )
        self.fingerprint = "xxh3:" + digest.hexdigest()

    def read(self) -> Float32s:
        """Return every row, (rows, dim) float32, C-contiguous; memory: these and `block_bytes`.

        Raises BadInput as the blocks do.
        """
        self.values = np.empty((self.source.rows, self.source.dim), np.float32)
        for _ in self:
            pass
        return self.values


@dataclass
class PairStream:
    """The two opened sources of the pairs, read whole or block by block, as often as needed.

    `fingerprints`: of both sides once a pass has ended, "" before.
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

    def read(self) -> PairedRows:
        """Read every row of both sides at once. Raises BadInput as `UnitRowBlocks` does."""
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
        blocks = [map(as_floats, side.blocks(side.rows)) for side in self.sources]
        return PairedRows(*(np.concatenate(list(side), dtype=np.float32) for side in blocks))

    def blocks(self) -> Iterator[tuple[int, Float32s, Float32s]]:
        """Yield the first row of a block and its unit rows of both sides, (n, d) float32 each.

        Blocks are cut to the same rows: shards of the two sides may end at different places.
        Raises BadInput for rows that cannot be unit rows and for files that changed since they were opened.
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
        self.fingerprints = x.fingerprint, y.fingerprint

    def _sides(self) -> list[UnitRowBlocks]:
        return [UnitRowBlocks(side, self.normalize, self.block_bytes) for side in self.sources]


def mean_rows(x: Float32s, y: Float32s) -> Float32s:
    """Return (n, d) the unit mean of both sides; that of x alone where they cancel out."""
    means = np.empty_like(x)
    opposite = unit_rows_into(x + y, means, normalize=True)
    means[opposite] = x[opposite]
    return means
