"""Turns raw blocks into the canonical float32 unit rows and tells which rows cannot be."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

SLICE_BYTES: Final = 768 * 1024
"""Size of one float64 work buffer: small enough that a few of them stay in a core's cache."""

UNIT_TOLERANCE: Final = 1e-2
"""How far from 1 the norm of a row may be that is said to be normalised: float16 and bfloat16 rounding stays below."""

_SAFE_NORM2: Final = (1e-200, 1e200)
"""Squared norms within are free of float64 overflow, and of underflow that could matter."""


@dataclass(frozen=True)
class RowFaults:
    """Masks over the rows of one block, each (n,) bool."""

    non_finite: NDArray[np.bool_]
    zero: NDArray[np.bool_]
    not_unit: NDArray[np.bool_]


def unit_rows_into(raw: NDArray[Any], dtype: str, out: NDArray[np.float32], *, normalize: bool) -> RowFaults:
    """Write the rows of `raw` to `out` as float32, divided by their norms if `normalize`.

    raw: (n, d), bfloat16 as uint16 bits; out: (n, d) float32. The norm is taken in float64 by `sum_by_halving`, and
    the quotient is rounded once to float32, so the bits depend on the row alone. Rows with a fault hold anything.
    """
    count, dim = raw.shape
    faults = RowFaults(*np.zeros((3, count), dtype=np.bool_))
    step = rows_per_slice(dim)
    rows, squares = np.empty((2, min(step, count), dim), dtype=np.float64)
    bits = np.empty((min(step, count), dim), dtype=np.uint32) if dtype == "bfloat16" else None
    with np.errstate(all="ignore"):
        for start in range(0, count, step):
            chosen = slice(start, min(start + step, count))
            wide = rows[: chosen.stop - start]
            _widen(raw[chosen], wide, bits)
            norm2 = sum_by_halving(np.multiply(wide, wide, out=squares[: len(wide)]))
            # Only float64 reaches norms whose square leaves its range.
            extreme = _rescale_extreme(wide, norm2) if dtype == "float64" else False
            norm = np.sqrt(norm2)
            faults.non_finite[chosen] = ~np.isfinite(norm2)
            faults.zero[chosen] = norm2 == 0
            faults.not_unit[chosen] = (np.abs(norm - 1) > UNIT_TOLERANCE) | extreme
            if normalize:
                np.divide(wide, norm[:, np.newaxis], out=wide)
            np.copyto(out[chosen], wide, casting="same_kind")
    return faults


def rows_per_slice(dim: int) -> int:
    """How many float64 rows of this width fill one cache-sized work buffer (at least 1)."""
    return max(1, SLICE_BYTES // (8 * dim))


def sum_by_halving(work: NDArray[np.float64]) -> NDArray[np.float64]:
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


def _widen(raw: NDArray[Any], wide: NDArray[np.float64], bits: NDArray[np.uint32] | None) -> None:
    """Convert raw rows to float64, exactly. bits: a work buffer if `raw` is bfloat16 (a float32's upper half)."""
    if bits is None:
        np.copyto(wide, raw)
        return
    upper = bits[: len(raw)]
    np.copyto(upper, raw)
    np.left_shift(upper, 16, out=upper)
    np.copyto(wide, upper.view(np.float32))


def _rescale_extreme(rows: NDArray[np.float64], norm2: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Scale rows whose squared norm is out of the safe range by a power of two, in place, and take it again.

    rows: (n, d); norm2: (n,). Returns which rows were out of range, those of NaN, infinity or zeros included.
    """
    extreme = ~((norm2 >= _SAFE_NORM2[0]) & (norm2 <= _SAFE_NORM2[1]))
    if extreme.any():
        some = rows[extreme]
        exponent = np.frexp(np.abs(some).max(axis=1))[1]
        some = np.ldexp(some, -exponent[:, np.newaxis])
        rows[extreme] = some
        norm2[extreme] = sum_by_halving(some * some)
    return extreme
