"""What each row sees inside its batch, for any order: log-sum-exp, least and largest similarity, number of keys."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.suspects import SuspectPairs, group_numbers
from gcbs_cli.settings.report import KeySet
from gcbs_cli.system.arrays import inverse

ENTRIES_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class BatchSums:
    """For each side (x, y), temperature and input row.

    log_sums, masked_log_sums: (2, T, N), log Σ exp(s / temperature) over the keys seen, without suspected pairs in the
    second; least, largest: (2, N) similarities among the keys seen, the own positive included; seen: (N,) their number.
    """

    log_sums: NDArray[np.float64]
    masked_log_sums: NDArray[np.float64]
    least: NDArray[np.float32]
    largest: NDArray[np.float32]
    seen: NDArray[np.int64]


@dataclass(frozen=True)
class _Table:
    """Keys seen by consecutive planned rows: (b, n, w) similarities, −inf where a key is not one.

    masked: the same without suspected pairs.
    """

    rows: slice
    side: int
    values: NDArray[np.float32]
    masked: NDArray[np.float32]


def batch_sums(
    pair: PairedRows,
    perm: NDArray[np.int64],
    batch_size: int,
    temperatures: Sequence[float],
    suspects: SuspectPairs,
    *,
    keys: KeySet = KeySet.PAIRS,
    queue_batches: int = 0,
) -> BatchSums:
    """Cut `perm` into batches and sum what each row meets there; results are by input row, not by position."""
    count = pair.rows
    sums = BatchSums(
        np.empty((2, len(temperatures), count)),
        np.empty((2, len(temperatures), count)),
        np.empty((2, count), np.float32),
        np.empty((2, count), np.float32),
        np.empty(count, np.int64),
    )
    for table in _tables(pair, perm, batch_size, suspects, keys, queue_batches):
        _fill(sums, table, perm, temperatures)
    return sums


def hardest_in_batches(
    pair: PairedRows, perm: NDArray[np.int64], batch_size: int, suspects: SuspectPairs
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(2, N) each row's largest similarity to a negative of its batch, and the same without suspected pairs.

    By side and input row; −inf for a row without any.
    """
    found = np.empty((2, 2, pair.rows), np.float32)
    for table in _tables(pair, perm, batch_size, suspects, KeySet.PAIRS, 0):
        own = np.arange(table.values.shape[-1])
        for number, values in enumerate((table.values, table.masked)):
            negatives = values.copy()
            negatives[:, own, own] = -np.inf
            found[number, table.side, perm[table.rows]] = negatives.max(axis=-1).reshape(-1)
    return found[0], found[1]


def _fill(sums: BatchSums, table: _Table, perm: NDArray[np.int64], temperatures: Sequence[float]) -> None:
    rows, side = perm[table.rows], table.side
    finite = np.isfinite(table.values)
    sums.least[side, rows] = np.where(finite, table.values, np.inf).min(axis=-1).reshape(-1)
    sums.largest[side, rows] = table.values.max(axis=-1).reshape(-1)
    sums.seen[rows] = np.count_nonzero(finite, axis=-1).reshape(-1)
    same = table.masked is table.values
    for number, temperature in enumerate(temperatures):
        plain = log_sum_exp(table.values, temperature).reshape(-1)
        sums.log_sums[side, number, rows] = plain
        sums.masked_log_sums[side, number, rows] = plain if same else log_sum_exp(table.masked, temperature).reshape(-1)


def log_sum_exp(values: NDArray[np.float32], temperature: float) -> NDArray[np.float64]:
    """log Σ exp(values / temperature) along the last axis; each row holds at least one finite value."""
    largest = values.max(axis=-1, keepdims=True)
    powers = np.exp((values - largest) * np.float32(1.0 / temperature))
    return np.log(powers.sum(axis=-1, dtype=np.float64)) + largest[..., 0].astype(np.float64) / temperature


def _tables(
    pair: PairedRows, perm: NDArray[np.int64], size: int, suspects: SuspectPairs, keys: KeySet, queue_batches: int
) -> Iterator[_Table]:
    """Every batch of the plan, from both sides: many full batches at once, or one with its queue."""
    x, y = pair.x[perm], pair.y[perm]
    hidden = _Hidden(suspects, inverse(perm), size, queue_batches)
    for rows, seen in _blocks(len(perm), size, queue_batches):
        height = min(size, rows.stop - rows.start)
        batches = (rows.stop - rows.start) // height
        width = (seen.stop - seen.start) // batches
        first = width - height
        across = None
        for side, (left, right) in enumerate(((x, y), (y, x))):
            queries = left[rows].reshape(batches, height, -1)
            if across is None or rows != seen:
                values = queries @ right[seen].reshape(batches, width, -1).transpose(0, 2, 1)
                across = values
            else:
                values = np.ascontiguousarray(across.transpose(0, 2, 1))
            places = hidden.places(rows, seen, height, width)
            if keys is KeySet.QUEUE:
                values[:, :, first:][:, ~np.eye(height, dtype=np.bool_)] = -np.inf
            elif keys is KeySet.VIEWS:
                views = queries @ queries.transpose(0, 2, 1)
                views[:, np.arange(height), np.arange(height)] = -np.inf
                values = np.concatenate([values, views], axis=-1)
                batch, row, column = (np.concatenate([part, part]) for part in places)
                column[len(places[2]) :] += width
                places = batch, row, column
            masked = values
            if len(places[0]):
                masked = values.copy()
                masked[places] = -np.inf
            yield _Table(rows, side, values, masked)


def _blocks(count: int, size: int, queue_batches: int) -> Iterator[tuple[slice, slice]]:
    """Places of the rows, and of the keys that they see: the rows' own batches, and the last batches before them."""
    full = count - count % size
    step = size if queue_batches else size * max(1, ENTRIES_AT_ONCE // (size * size))
    for start, stop in pairwise(sorted({*range(0, full, step), full, count})):
        yield slice(start, stop), slice(max(0, start - queue_batches * size), stop)


class _Hidden:
    """Suspected pairs by their places in the plan, those that can meet: at most `queue_batches` batches apart."""

    def __init__(self, suspects: SuspectPairs, place: NDArray[np.int64], batch_size: int, queue_batches: int) -> None:
        batch = place // batch_size
        apart = np.abs(batch[suspects.lower] - batch[suspects.higher])
        # Of many suspected pairs few meet in a plan, and only these have to be sorted.
        meet = apart <= queue_batches
        rows, cols = SuspectPairs(suspects.lower[meet], suspects.higher[meet]).both_ways()
        row_places, col_places = place[rows], place[cols]
        order = np.argsort(row_places)
        self._rows, self._cols = row_places[order], col_places[order]
        self._groups, self._positives = (
            None if ids is None else group_numbers(ids[inverse(place)]) for ids in (suspects.groups, suspects.positives)
        )

    def places(self, rows: slice, seen: slice, height: int, width: int) -> tuple[NDArray[np.int64], ...]:
        """(batch, row, column) of suspected pairs in a table of these rows and the keys that they see."""
        part = slice(*np.searchsorted(self._rows, [rows.start, rows.stop]))
        batch, row = np.divmod(self._rows[part] - rows.start, height)
        column = self._cols[part] - seen.start - batch * height
        inside = (column >= 0) & (column < width)
        listed = batch[inside], row[inside], column[inside]
        if self._groups is None:
            return listed
        mates = self._groups[rows].reshape(-1, height, 1) == self._groups[seen].reshape(-1, 1, width)
        if self._positives is not None:
            mates &= self._positives[rows].reshape(-1, height, 1) != self._positives[seen].reshape(-1, 1, width)
        mates &= ~np.eye(height, width, width - height, dtype=np.bool_)
        return tuple(np.concatenate(parts) for parts in zip(listed, np.nonzero(mates), strict=True))
