"""Round the unit rows of both sides to whole numbers, so that every product of two rows is an exact integer.

x̂ = rint(S·(x − x̄)) with the mean x̄ of its side and one scale S for both. All partial sums of x̂·ŷ stay below 2²⁴, so
that int32, float32 and TF32 arithmetic, in any order of summation, give the same number: comparisons of products, and
with them the graph, the quantile and the lists of the hardest, are the same on every device. What the means took out of
x·y comes back as one whole number a row and one a column. The grid itself is made by elementwise float64 operations and
whole-number sums alone, whose bits no library or processor changes.
"""

from dataclasses import dataclass, replace
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.system.arrays import Float32s, Floats, Int32s, Ints
from gcbs_cli.system.limits import available_cpus
from gcbs_cli.system.threads import in_order, in_parts

BYTES = 127
"""Largest number of a grid whose rows are bytes (int8)."""
FINE = 2047
"""Largest number of a grid whose rows have 12 bits (int16): what float16 and TF32 still hold exactly."""
LARGEST_SUM = 1 << 24
"""float32 holds every whole number up to here."""
LEAST_MULTIPLICATIONS = 1 << 35
"""Below so many, products of bytes save no time worth having, and the grid is the fine one."""
ROUNDING_DEVIATION = 0.41
"""Standard deviation of x̂·ŷ − S²·(x − x̄)·(y − ȳ), divided by S, for unit rows of any width."""
LEAST_TAIL_DEVIATIONS = 16
"""Bytes are too coarse where the tail above the 0.999 quantile, on average, rises by less than so many deviations."""
TAIL = 1e-3
SAMPLE_ROWS = 512
MEAN_UNITS = 1 << 24
"""The means are sums of whole multiples of 1 / MEAN_UNITS."""
EQUAL = 2.0 / MEAN_UNITS
"""Rows that differ by less are equal, up to the rounding of their mean: at any scale they are zeros."""
EQUAL_SCALE = 1024.0
OFFSET_BITS = 12
ROUND_TRIP = 2.0**-20
"""More than float64 loses of a number that becomes a similarity and a number again; far less than numbers differ by."""
GROUP = 4
"""The rows are padded with zeros to a multiple of so many coordinates, as products of bytes want them."""
ROWS_AT_ONCE = 512

Numbers = NDArray[np.int8] | NDArray[np.int16]


@dataclass(frozen=True)
class Grid:
    """Both sides as whole numbers; x_i · y_j ≈ (x[i] · y[j] + x_offsets[i] + y_offsets[j] + constant) / scale².

    The products with their offsets, without the constant, are the *numbers* that a pass compares.
    """

    x: Numbers
    """(N, D) rows, D a multiple of 4; int8, or int16 where bytes would be too coarse."""
    y: Numbers
    """(M, D) rows, of the same type."""
    x_offsets: Int32s
    """(N,) S·x̂_i·ȳ, rounded."""
    y_offsets: Int32s
    """(M,) S·x̄·ŷ_j, rounded."""
    constant: int
    """S²·x̄·ȳ, rounded: it takes no part in comparisons of entries with each other."""
    scale: float
    """S."""

    def number(self, similarity: float) -> int:
        """The largest number whose similarity is not above the given one; of `similarity(n)` it is n."""
        return floor(similarity * self.scale**2 + ROUND_TRIP) - self.constant

    def similarity(self, number: int) -> float:
        """What a number stands for."""
        return (number + self.constant) / self.scale**2

    def numbers(self, rows: Ints, cols: Ints) -> Float32s:
        """(r, c) the numbers of some rows and columns, whole."""
        numbers = self.x[rows].astype(np.float32) @ self.y[cols].astype(np.float32).T
        numbers += self.x_offsets[rows, None].astype(np.float32)
        numbers += self.y_offsets[cols].astype(np.float32)
        return numbers


@dataclass(frozen=True)
class _Side:
    """The rows (n, d) of a side, and of all its rows the mean (d,) and the largest |x − x̄| of any coordinate."""

    rows: Float32s
    mean: Floats
    largest: float


def make_grid(x: Float32s, y: Float32s, largest: int | None = None) -> Grid:
    """The grid of two sides, x (N, d) and y (M, d) float32 unit rows.

    `largest`: the largest number, BYTES or FINE; by default the data decide: bytes where products of bytes save time
    and are fine enough for the tail of the similarities.
    """
    left = _side(x)
    right = left if y is x else _side(y)
    if largest is None:
        short = len(x) * len(y) * x.shape[1] < LEAST_MULTIPLICATIONS
        largest = FINE if short or _too_coarse(left, right) else BYTES
    return _rounded(left, right, largest)


def _side(rows: Float32s) -> _Side:
    def measured(start: int) -> tuple[Ints, Float32s, Float32s]:
        part = rows[start : start + ROWS_AT_ONCE]
        units = np.rint(part * np.float32(MEAN_UNITS)).sum(axis=0, dtype=np.int64)
        return units, part.min(axis=0), part.max(axis=0)

    parts = in_order(available_cpus(), range(0, len(rows), ROWS_AT_ONCE), measured)
    units, low, high = map(np.array, zip(*parts, strict=True))
    mean = units.sum(axis=0) / (len(rows) * MEAN_UNITS)
    largest = np.maximum(high.max(axis=0) - mean, mean - low.min(axis=0)).max()
    return _Side(rows, mean, float(largest))


def _rounded(left: _Side, right: _Side, largest: int) -> Grid:
    spread = max(left.largest, right.largest)
    scale = largest / spread if spread > EQUAL else EQUAL_SCALE
    while True:
        means = [np.rint(side.mean * (scale * 2.0**OFFSET_BITS)).astype(np.int64) for side in (left, right)]
        x, x_offsets, x_norm = _numbers(left, means[1], scale, largest)
        if right is left:
            y, y_offsets, y_norm = x, x_offsets, x_norm
        else:
            y, y_offsets, y_norm = _numbers(right, means[0], scale, largest)
        if x_norm * y_norm + float(np.abs(x_offsets).max() + np.abs(y_offsets).max()) < LARGEST_SUM:
            constant = sum(a * b for a, b in zip(means[0].tolist(), means[1].tolist(), strict=True))
            return Grid(x, y, x_offsets, y_offsets, _shifted(constant, 2 * OFFSET_BITS), scale)
        scale /= 2.0


def _numbers(side: _Side, other_mean: Ints, scale: float, largest: int) -> tuple[Numbers, Int32s, float]:
    """The rows of a side as whole numbers, their offsets and their largest norm; the mean comes in units of 2⁻¹²."""
    count, dim = side.rows.shape
    numbers = np.zeros((count, -(-dim // GROUP) * GROUP), np.int8 if largest <= BYTES else np.int16)
    offsets = np.empty(count, np.int32)
    squares = np.empty(count)

    def fill(start: int, stop: int) -> None:
        part = slice(start, stop)
        work = side.rows[part] - side.mean  # float64
        np.rint(np.multiply(work, scale, out=work), out=work)
        numbers[part, :dim] = work
        offsets[part] = np.clip(_shifted(work.astype(np.int64) @ other_mean, OFFSET_BITS), -LARGEST_SUM, LARGEST_SUM)
        squares[part] = np.multiply(work, work, out=work).sum(axis=1)  # of whole numbers, so in any order the same

    in_parts(count, ROWS_AT_ONCE, fill)
    return numbers, offsets, float(np.sqrt(squares.max()))


def _shifted(value: Any, bits: int) -> Any:
    """Whole numbers divided by a power of two and rounded."""
    return (value + (1 << (bits - 1))) >> bits


def _too_coarse(left: _Side, right: _Side) -> bool:
    """Whether rounding to bytes would blur the order of the largest entries, by the exact integers of a few rows."""
    spread = max(left.largest, right.largest)
    fine = _rounded(_spread(left), _spread(right), FINE)
    numbers = fine.numbers(np.arange(len(fine.x)), np.arange(len(fine.y))).reshape(-1)
    place = numbers.size - max(1, int(numbers.size * TAIL)) - 1
    numbers.partition(place)
    rise = (numbers[place + 1 :].mean(dtype=np.float64) - numbers[place]) / fine.scale**2
    return bool(rise < LEAST_TAIL_DEVIATIONS * ROUNDING_DEVIATION * spread / BYTES)


def _spread(side: _Side) -> _Side:
    """A side with at most SAMPLE_ROWS of its rows, evenly apart."""
    places = np.linspace(0, len(side.rows) - 1, min(SAMPLE_ROWS, len(side.rows))).astype(np.int64)
    return replace(side, rows=side.rows[places])
