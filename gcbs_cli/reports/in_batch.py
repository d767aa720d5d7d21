"""What each row sees inside its batch, for any order: log-sum-exp, least and largest similarity, number of keys."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    """Keys seen by consecutive planned rows: (b, n, w) similarities with −inf where a key is not one."""

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
    place = inverse(perm)
    masks = _Masks(suspects, place, batch_size, queue_batches)
    planned = PairedRows(pair.x[perm], pair.y[perm])
    if keys in (KeySet.QUEUE, KeySet.BATCH_AND_QUEUE):
        tables = _queue_tables(planned, batch_size, masks, queue_batches, own_batch=keys is KeySet.BATCH_AND_QUEUE)
    else:
        tables = _batch_tables(planned, batch_size, masks, views=keys is KeySet.VIEWS)
    for table in tables:
        _fill(sums, table, perm, temperatures)
    return sums


def hardest_in_batches(
    pair: PairedRows, perm: NDArray[np.int64], batch_size: int, suspects: SuspectPairs
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(2, N) each row's largest similarity to a negative of its batch, and the same without suspected pairs.

    By side and input row; −inf for a row without any.
    """
    found = np.full((2, 2, pair.rows), -np.inf, np.float32)
    planned = PairedRows(pair.x[perm], pair.y[perm])
    for table in _batch_tables(planned, batch_size, _Masks(suspects, inverse(perm), batch_size, 0), views=False):
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


class _Masks:
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
        self._groups: NDArray[np.int32] | None = None
        if suspects.groups is not None:
            self._groups = np.empty(len(place), np.int32)
            self._groups[place] = group_numbers(suspects.groups)

    def within(self, rows: slice, columns: slice) -> tuple[NDArray[np.int64], ...]:
        """Suspected (row, column) places inside a rectangle of the planned matrix, relative to its corner."""
        part = slice(*np.searchsorted(self._rows, [rows.start, rows.stop]))
        places, others = self._rows[part], self._cols[part]
        inside = (others >= columns.start) & (others < columns.stop)
        listed = places[inside] - rows.start, others[inside] - columns.start
        if self._groups is None:
            return listed
        mates = self._groups[rows][:, None] == self._groups[columns]
        own = np.arange(max(rows.start, columns.start), min(rows.stop, columns.stop))
        mates[own - rows.start, own - columns.start] = False
        return _joined(listed, np.nonzero(mates))

    def in_batches(self, rows: slice, size: int) -> tuple[NDArray[np.int64], ...]:
        """(batch, row, column) of suspected pairs inside the batches of these rows, relative to the first."""
        part = slice(*np.searchsorted(self._rows, [rows.start, rows.stop]))
        places, others = self._rows[part] - rows.start, self._cols[part] - rows.start
        batch = places // size
        together = batch == others // size
        listed = batch[together], places[together] % size, others[together] % size
        if self._groups is None:
            return listed
        numbers = self._groups[rows].reshape(-1, size)
        mates = (numbers[:, :, None] == numbers[:, None, :]) & ~np.eye(size, dtype=np.bool_)
        return _joined(listed, np.nonzero(mates))


def _joined(one: tuple[NDArray[np.int64], ...], other: tuple[NDArray[np.int64], ...]) -> tuple[NDArray[np.int64], ...]:
    """Two lists of places, one after the other."""
    return tuple(np.concatenate(parts) for parts in zip(one, other, strict=True))


def _batch_tables(planned: PairedRows, size: int, masks: _Masks, *, views: bool) -> Iterator[_Table]:
    """Tables of many full batches at once, then of the short one."""
    count = planned.rows
    full = count - count % size
    step = size * max(1, ENTRIES_AT_ONCE // (size * size))
    for start in range(0, full, step):
        yield from _tables_of(planned, slice(start, min(start + step, full)), size, masks, views=views)
    if full < count:
        yield from _tables_of(planned, slice(full, count), count - full, masks, views=views)


def _tables_of(planned: PairedRows, rows: slice, size: int, masks: _Masks, *, views: bool) -> Iterator[_Table]:
    x = planned.x[rows].reshape(-1, size, planned.dim)
    y = planned.y[rows].reshape(-1, size, planned.dim)
    hidden = masks.in_batches(rows, size)
    across = x @ y.transpose(0, 2, 1)
    sides = (across, np.ascontiguousarray(across.transpose(0, 2, 1)))
    for side, (values, own) in enumerate(zip(sides, (x, y), strict=True)):
        parts, masked = [values], [_hide(values, hidden)]
        if views:
            same_side = own @ own.transpose(0, 2, 1)
            same_side[:, np.arange(size), np.arange(size)] = -np.inf
            parts.append(same_side)
            masked.append(_hide(same_side, hidden))
        unchanged = len(hidden[0]) == 0
        table = np.concatenate(parts, axis=-1) if views else values
        yield _Table(rows, side, table, table if unchanged else np.concatenate(masked, axis=-1))


def _hide(values: NDArray[np.float32], places: tuple[NDArray[np.int64], ...]) -> NDArray[np.float32]:
    if len(places[0]) == 0:
        return values
    hidden = values.copy()
    hidden[places] = -np.inf
    return hidden


def _queue_tables(
    planned: PairedRows, size: int, masks: _Masks, queue_batches: int, *, own_batch: bool
) -> Iterator[_Table]:
    """Tables of one batch at a time against the last batches; the first batches find a shorter queue."""
    for start in range(0, planned.rows, size):
        stop = min(start + size, planned.rows)
        rows, keys = slice(start, stop), slice(max(0, start - queue_batches * size), stop)
        for side, (left, right) in enumerate(((planned.x, planned.y), (planned.y, planned.x))):
            values = left[rows] @ right[keys].T
            if not own_batch:
                _keep_only_positive(values, start - keys.start)
            hidden_rows, hidden_cols = masks.within(rows, keys)
            masked = values.copy()
            masked[hidden_rows, hidden_cols] = -np.inf
            yield _Table(rows, side, values, masked)


def _keep_only_positive(values: NDArray[np.float32], first: int) -> None:
    own = np.arange(len(values))
    positives = values[own, first + own].copy()
    values[:, first:] = -np.inf
    values[own, first + own] = positives
