"""Turns raw blocks into the canonical float32 unit rows and tells which rows cannot be."""

from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.system.arrays import Array, Float32s, Floats
from gcbs_cli.system.threads import in_parts

SLICE_BYTES: Final = 1024 * 1024
"""Size of one float64 work buffer: small enough that a few of them stay in a core's cache."""

UNIT_TOLERANCE: Final = 1e-2
"""How far from 1 the norm of a row may be that is said to be normalised: float16 and bfloat16 rounding stays below."""

_LEAST_NORM2: Final = 1e-200
"""A row with a smaller squared norm counts as zeros: near float64's least numbers it would lose digits."""


class RowFault(IntEnum):
    """Why a row cannot be a unit row."""

    NON_FINITE = 1
    ZERO = 2
    NOT_UNIT = 3


def unit_rows_into(raw: Array, dtype: str, out: Float32s, *, normalize: bool) -> NDArray[np.uint8]:
    """Write the rows of `raw` to `out` as float32, divided by their norms if `normalize`; return the fault of each.

    raw: (n, d), bfloat16 as uint16 bits; out: (n, d) float32. The norm is taken in float64 by `sum_by_halving`, and
    the quotient is rounded once to float32, so the bits depend on the row alone. Rows with a fault, a RowFault in the
    (n,) that comes back, hold anything. NOT_UNIT is looked for where rows are taken as they are.
    """
    faults = np.empty(len(raw), np.uint8)

    def convert(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):
            # Of one piece: freed one by one, they would go back to the system and be cleared anew each time.
            wide, squares = np.empty((2, stop - start, raw.shape[1]))
            wide[:] = as_floats(raw[start:stop], dtype)
            norm2 = sum_by_halving(np.multiply(wide, wide, out=squares))
            norm = np.sqrt(norm2)
            found = np.zeros(len(wide), np.uint8)
            if normalize:
                wide /= norm[:, np.newaxis]
            else:
                found[np.abs(norm - 1) > UNIT_TOLERANCE] = RowFault.NOT_UNIT
            found[norm2 < _LEAST_NORM2] = RowFault.ZERO
            found[~np.isfinite(norm2)] = RowFault.NON_FINITE
            faults[start:stop] = found
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
