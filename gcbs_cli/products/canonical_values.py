"""Decide entries near a threshold by the canonical float64 dot product, the same on every device and block size."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.canonical import dot_pairs
from gcbs_cli.data.pairs import PairedRows

FLOAT64_UNIT_ROUNDOFF = 2.0**-53
MANY_PAIRS = 1 << 15
"""From so many pairs near the threshold in one tile on, a float64 product of the tile comes first."""


def double_error(dim: int) -> float:
    """Bound on the rounding of a float64 dot product of unit rows, in any order of summation."""
    return (dim + 2) * FLOAT64_UNIT_ROUNDOFF * (1.0 + 2.0**-20)


def canonical_values(pair: PairedRows, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n,) s_ij in float64 for the given index pairs, with the same bits wherever and in whatever order it runs."""
    return dot_pairs(pair.x, pair.y, rows, cols)


def settle(
    pair: PairedRows,
    rows: NDArray[np.int64],
    cols: NDArray[np.int64],
    values: NDArray[np.floating[Any]],
    threshold: float | NDArray[np.float64],
    error: float,
) -> NDArray[np.float64]:
    """(n,) the values, with every one within `error` of its threshold replaced by its canonical value.

    Comparing the result with the threshold then gives the same answer on every device. `rows` and `cols` are of one
    tile or of one list that lies in memory; many near pairs (duplicated rows) are narrowed by a float64 product first.
    """
    settled = values.astype(np.float64)
    near = np.flatnonzero(np.abs(settled - threshold) <= error)
    limits = np.broadcast_to(np.asarray(threshold, np.float64), settled.shape)
    if len(near) > MANY_PAIRS and error > 4.0 * double_error(pair.dim):  # else the values are float64's already
        settled[near] = _double_products(pair, rows[near], cols[near])
        near = near[np.abs(settled[near] - limits[near]) <= double_error(pair.dim)]
    settled[near] = canonical_of_many(pair, rows[near], cols[near])
    return settled


def canonical_of_many(pair: PairedRows, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.float64]:
    """`canonical_values`, with pairs of equal contents computed once where there are many."""
    return (_distinct_values if len(rows) > MANY_PAIRS else canonical_values)(pair, rows, cols)


def _double_products(pair: PairedRows, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.float64]:
    """s_ij to float64 rounding, by a BLAS product of the rows and columns that occur."""
    used_rows, row_places = _occurring(rows)
    used_cols, col_places = _occurring(cols)
    if len(used_rows) * len(used_cols) > 64 * len(rows):
        return canonical_values(pair, rows, cols)
    values = np.empty(len(rows), np.float64)
    right = pair.y[used_cols].astype(np.float64).T
    order = np.argsort(row_places, kind="stable")
    strip = 512
    bounds = np.searchsorted(row_places[order], np.arange(0, len(used_rows) + strip, strip))
    for number, (start, stop) in enumerate(pairwise(bounds)):
        part = order[start:stop]
        left = pair.x[used_rows[number * strip : (number + 1) * strip]].astype(np.float64)
        values[part] = (left @ right)[row_places[part] - number * strip, col_places[part]]
    return values


def _distinct_values(pair: PairedRows, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.float64]:
    """Canonical values, each pair of distinct contents computed once: equal rows have equal products."""
    row_numbers, first_rows = _contents(pair.x, rows)
    col_numbers, first_cols = _contents(pair.y, cols)
    keys, places = _occurring(row_numbers * len(first_cols) + col_numbers)
    row_of_key, col_of_key = np.divmod(keys, max(1, len(first_cols)))
    return canonical_values(pair, first_rows[row_of_key], first_cols[col_of_key])[places]


def _occurring(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers that occur, rising, and the place of each one given among them; by a table where that is small."""
    least = int(numbers.min()) if len(numbers) else 0
    width = int(numbers.max(initial=-1)) + 1 - least
    if width > max(len(numbers), 1 << 12) * 4:
        used, places = np.unique(numbers, return_inverse=True)
        return used, places
    there = np.zeros(width, np.bool_)
    there[numbers - least] = True
    used = np.flatnonzero(there)
    table = np.empty(width, np.int64)
    table[used] = np.arange(len(used))
    return used + least, table[numbers - least]


def _contents(side: NDArray[np.float32], index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of each row's content, and for each number one row that has it."""
    used, places = _occurring(index)
    rows = np.ascontiguousarray(side[used])
    as_bytes = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).reshape(-1)
    _, first, numbers = np.unique(as_bytes, return_index=True, return_inverse=True)
    return numbers[places].astype(np.int64), used[first]


def order_statistic(
    pair: PairedRows,
    rows: NDArray[np.int64],
    cols: NDArray[np.int64],
    values: NDArray[np.float32],
    rank: int,
    error: float,
) -> float:
    """The canonical value of the given rank (1 is the largest) among these entries.

    The fast values give the neighbourhood, a float64 product narrows it where it is large, canonical values decide.
    """
    near, rank = _neighbourhood(values.astype(np.float64), rank, error)
    rows, cols = rows[near], cols[near]
    if len(near) > MANY_PAIRS and error > 4.0 * double_error(pair.dim):
        near, rank = _neighbourhood(_double_products(pair, rows, cols), rank, double_error(pair.dim))
        rows, cols = rows[near], cols[near]
    return float(of_rank(canonical_of_many(pair, rows, cols), rank))


def of_rank(values: NDArray[np.floating], rank: int) -> float:
    """The value of the given rank (1 is the largest)."""
    place = len(values) - rank
    return float(np.partition(values, place)[place])


def _neighbourhood(values: NDArray[np.float64], rank: int, error: float) -> tuple[NDArray[np.int64], int]:
    """Entries that may be the one of this rank when every value is off by at most `error`, and its rank among them."""
    guess = of_rank(values, rank)
    above = int(np.count_nonzero(values > guess + 2.0 * error))
    return np.flatnonzero(np.abs(values - guess) <= 2.0 * error), rank - above
