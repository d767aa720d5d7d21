"""The gap once more, by another way: float64 products of some rows with all keys, and plain log-sum-exps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.canonical_values import double_error
from gcbs_cli.reports.in_batch import KeySet
from gcbs_cli.reports.losses import Loss
from gcbs_cli.system.arrays import inverse

SAMPLED_ROWS = 128
MOST_ROWS_IN_FULL = 20_000
"""N up to which the whole is computed in float64: N² d products at half of float32's rate, and N² exponentials."""
KEYS_AT_ONCE = 4096
QUERIES_AT_ONCE = 512
_CROSS_CHECK_STREAM = 0xC4055
"""Sets the draw of the rows apart from others of the same seed."""


@dataclass(frozen=True)
class RowGaps:
    """Gaps in float64, (T, n) in nats, the mean over the loss's directions; rows: (n,) input rows they belong to."""

    rows: NDArray[np.int64]
    gaps: NDArray[np.float64]


def sampled_rows(kept: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """(n,) at most SAMPLED_ROWS of the kept rows, drawn with the seed."""
    if len(kept) <= SAMPLED_ROWS:
        return kept
    return np.random.default_rng([seed, _CROSS_CHECK_STREAM]).choice(kept, SAMPLED_ROWS, replace=False)


def row_gaps_in_double(
    pair: PairedRows,
    perm: NDArray[np.int64],
    batch_size: int,
    loss: Loss,
    temperatures: Sequence[float],
    rows: NDArray[np.int64],
) -> RowGaps:
    """The gap of these rows by its definition: log Σ over all keys − log Σ over the keys that the plan shows them."""
    place = inverse(perm)
    gaps = np.zeros((len(temperatures), len(rows)))
    for start in range(0, len(rows), QUERIES_AT_ONCE):
        part = slice(start, start + QUERIES_AT_ONCE)
        for side in loss.sides:
            sums = _both_sums(pair, place, batch_size, loss, temperatures, rows[part], side)
            gaps[:, part] += (sums[0] - sums[1]) / len(loss.sides)
    return RowGaps(rows, gaps)


def _both_sums(
    pair: PairedRows,
    place: NDArray[np.int64],
    batch_size: int,
    loss: Loss,
    temperatures: Sequence[float],
    rows: NDArray[np.int64],
    side: int,
) -> NDArray[np.float64]:
    """(2, T, n) log-sum-exps over all keys, and over those that are seen."""
    own, other = (pair.x, pair.y) if side == 0 else (pair.y, pair.x)
    queries = own[rows].astype(np.float64)
    totals = np.full((2, len(temperatures), len(rows)), -np.inf)
    for keys, same_side in _key_sides(own, other, loss):
        for start in range(0, len(keys), KEYS_AT_ONCE):
            columns = np.arange(start, min(start + KEYS_AT_ONCE, len(keys)))
            values = queries @ keys[columns].astype(np.float64).T
            if same_side:
                values[rows[:, None] == columns] = -np.inf
            seen = np.where(_seen(place, batch_size, loss, rows, columns, same_side=same_side), values, -np.inf)
            for number, temperature in enumerate(temperatures):
                for total, part in zip(totals, (values, seen), strict=True):
                    total[number] = np.logaddexp(total[number], _log_sum_exp(part / temperature))
    return totals


def _key_sides(
    own: NDArray[np.float32], other: NDArray[np.float32], loss: Loss
) -> Iterator[tuple[NDArray[np.float32], bool]]:
    yield other, False
    if loss.keys is KeySet.VIEWS:
        yield own, True


def _seen(
    place: NDArray[np.int64],
    batch_size: int,
    loss: Loss,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    *,
    same_side: bool,
) -> NDArray[np.bool_]:
    """(n, m) which keys each row meets in the plan's batches."""
    behind = (place[rows] // batch_size)[:, None] - (place[columns] // batch_size)[None, :]
    queued = (behind >= 1) & (behind <= loss.queue_batches)
    if loss.keys is KeySet.QUEUE:
        return queued | (rows[:, None] == columns)
    if loss.keys is KeySet.BATCH_AND_QUEUE:
        return queued | (behind == 0)
    return (behind == 0) & ~(same_side & (rows[:, None] == columns))


def _log_sum_exp(values: NDArray[np.float64]) -> NDArray[np.float64]:
    largest = values.max(axis=1)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        sums: NDArray[np.float64] = np.log(np.exp(values - shift[:, None]).sum(axis=1)) + shift
    return sums


def entries_above_in_double(pair: PairedRows, threshold: float) -> tuple[int, int]:
    """How many entries of X Yᵀ lie above the threshold for certain, and how many so near that float64 cannot tell."""
    error = double_error(pair.dim)
    certain = unsure = 0
    for start in range(0, pair.rows, QUERIES_AT_ONCE):
        queries = pair.x[start : start + QUERIES_AT_ONCE].astype(np.float64)
        for first in range(0, pair.rows, KEYS_AT_ONCE):
            values = queries @ pair.y[first : first + KEYS_AT_ONCE].astype(np.float64).T
            certain += int(np.count_nonzero(values > threshold + error))
            unsure += int(np.count_nonzero(np.abs(values - threshold) <= error))
    return certain, unsure
