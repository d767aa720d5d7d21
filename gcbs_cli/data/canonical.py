"""Sums whose bits do not depend on the machine, the block size or the number of threads.

A matrix product adds in an order that its library chooses. Here every sum over a row has one fixed order, made of
elementwise additions alone, so that numpy, torch or a GPU give the same float64 bits.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

SLICE_BYTES: Final = 768 * 1024
"""Size of one float64 work buffer: small enough that a few of them stay in a core's cache."""


def rows_per_slice(dim: int) -> int:
    """Return how many float64 rows of this width fill one cache-sized work buffer (at least 1)."""
    return max(1, SLICE_BYTES // (8 * dim))


def sum_by_halving(products: NDArray[np.floating]) -> NDArray[np.float64]:
    """Sum the last axis in float64, in one fixed order.

    products: (..., d), d >= 1. Returns (...,) float64. The order: pad d with zeros to a power of two, then add the
    upper half to the lower half, elementwise, until one column is left.
    """
    work = np.array(products, dtype=np.float64, order="C", copy=True)
    return halve_in_place(work.reshape(-1, work.shape[-1])).reshape(work.shape[:-1])


def halve_in_place(work: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum the rows of `work` (n, d) as `sum_by_halving` does, overwriting it; returns a new (n,) float64 array."""
    filled = work.shape[1]
    while filled > 1:
        half = 1 << ((filled - 1).bit_length() - 1)
        # The zeros that would pad the upper half need not be added: they change nothing.
        lower = work[:, : filled - half]
        np.add(lower, work[:, half:filled], out=lower)
        filled = half
    return work[:, 0] + 0.0  # -0.0 becomes 0.0, as it does where zeros are added


def dot_rows(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return a_i · b_i for every row i, the same bits everywhere.

    a, b: (n, d) float32. Returns (n,) float64: exact float64 products, summed by halving. Memory: two slices.
    """
    if a.shape != b.shape or a.ndim != 2:
        raise ValueError(f"expected two arrays of one shape (n, d), got {a.shape} and {b.shape}")
    count, dim = a.shape
    out = np.empty(count, dtype=np.float64)
    step = rows_per_slice(dim)
    left, right = np.empty((2, min(step, count), dim), dtype=np.float64)
    for start in range(0, count, step):
        stop = min(start + step, count)
        products = left[: stop - start]
        factor = right[: stop - start]
        np.copyto(products, a[start:stop])
        np.copyto(factor, b[start:stop])
        np.multiply(products, factor, out=products)
        out[start:stop] = halve_in_place(products)
    return out


def dot_pairs(
    x: NDArray[np.float32], y: NDArray[np.float32], rows: NDArray[np.integer], columns: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Return x[rows[p]] · y[columns[p]] for every p: `dot_rows` without copies of all the gathered rows.

    x: (N, d) float32; y: (M, d) float32; rows, columns: (n,) indices in range. Returns (n,) float64.
    """
    out = np.empty(len(rows), dtype=np.float64)
    step = rows_per_slice(x.shape[1])
    for start in range(0, len(rows), step):
        chosen = slice(start, start + step)
        out[chosen] = dot_rows(x[rows[chosen]], y[columns[chosen]])
    return out
