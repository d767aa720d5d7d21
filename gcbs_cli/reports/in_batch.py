"""What each row sees inside its batch, for any order: log-sum-exp, least and largest similarity, number of keys."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.suspects import NO_SUSPECTS, SuspectPairs
from gcbs_cli.settings.report import Loss
from gcbs_cli.system.arrays import Bools, Float32s, Floats, Ints, group_numbers, inverse
from gcbs_cli.system.limits import available_cpus
from gcbs_cli.system.randomness import Stream
from gcbs_cli.system.threads import in_order

Result = TypeVar("Result")

ENTRIES_AT_ONCE, ROWS_AT_ONCE = 1 << 21, 1 << 12


@dataclass(frozen=True)
class BatchSums:
    """What each input row sees in its batch, in the S directions of a loss.

    log_sums: (T, 2, S, N) log Σ exp(s / temperature) over the keys seen, and over those that are not suspected;
    hardest: (2, S, N) the largest similarity to a negative, likewise, −inf where there is none;
    least: (S, N) the least similarity to a key, the own positive included; seen: (N,) the number of keys.
    """

    log_sums: Floats
    hardest: Float32s
    least: Float32s
    seen: Ints


def random_orders(rows: int, seed: int, trials: int = 1) -> Iterator[Ints]:
    """The random order of each trial."""
    for number in range(trials):
        yield Stream.TRIALS.generator(seed, number).permutation(rows)


def of_orders(orders: Iterable[Ints], work: Callable[[Ints], Result]) -> list[Result]:
    """What the work finds in each order, a thread each: products of batches are too small for several."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        return list(in_order(available_cpus(), orders, work))


def batch_sums(
    pair: PairedRows,
    perm: Ints,
    batch_size: int,
    temperatures: Sequence[float],
    loss: Loss,
    suspects: SuspectPairs = NO_SUSPECTS,
) -> BatchSums:
    """Cut `perm` into batches and sum what each row meets there; results are by input row, not by position."""
    count, directions = len(perm), len(loss.sides)
    sums = BatchSums(
        np.empty((len(temperatures), 2, directions, count)),
        np.empty((2, directions, count), np.float32),
        np.empty((directions, count), np.float32),
        np.empty(count, np.int64),
    )
    find_hidden = _hidden(suspects, perm, batch_size, loss.queue_batches)
    for rows, seen in _blocks(count, batch_size, loss.queue_batches):
        height, first = min(batch_size, rows.stop - rows.start), rows.start - seen.start
        places = perm[rows].reshape(-1, height)
        hidden = find_hidden(rows, seen, *places.shape)
        sides = pair.x[perm[seen]], pair.y[perm[seen]]  # some at a time: all would be as large as the data
        for side, values in enumerate(_tables(sides, first, height, loss)):
            own = np.s_[:, range(height), range(first, first + height)]
            positives = values[own]
            for masked in (0, 1):
                if masked and not hidden.any():
                    sums.log_sums[:, 1, side, places] = sums.log_sums[:, 0, side, places]
                    sums.hardest[1, side, places] = sums.hardest[0, side, places]
                    continue
                if masked:
                    np.copyto(values.reshape(*places.shape, -1, hidden.shape[2]), -np.inf, where=hidden[:, :, None])
                keys = _counting(values, own, positives, loss.top)
                if not masked:
                    finite = np.isfinite(keys)
                    sums.seen[places] = np.count_nonzero(finite, axis=-1)
                    sums.least[side, places] = np.where(finite, keys, np.inf).min(axis=-1)
                for number, temperature in enumerate(temperatures):
                    sums.log_sums[number, masked, side, places] = log_sum_exp(keys, temperature)
                values[own] = -np.inf
                sums.hardest[masked, side, places] = values.max(axis=-1)
    return sums


def _counting(values: Float32s, own: Any, positives: Float32s, top: int | None) -> Float32s:
    """The keys that count of a table: all, or the positives, which are put back at `own`, and the `top` hardest."""
    if top is None or top >= values.shape[-1]:
        values[own] = positives
        return values
    values[own] = -np.inf
    return np.concatenate([np.partition(values, -top, axis=-1)[..., -top:], positives[..., None]], axis=-1)


def log_sum_exp(values: Float32s, temperature: float) -> Floats:
    """log Σ exp(values / temperature) along the last axis; each row holds at least one finite value."""
    largest = values.max(axis=-1, keepdims=True)
    powers = np.exp((values - largest) * np.float32(1.0 / temperature))
    return np.log(powers.sum(axis=-1, dtype=np.float64)) + largest[..., 0].astype(np.float64) / temperature


def _blocks(count: int, size: int, queue_batches: int) -> Iterator[tuple[slice, slice]]:
    """Places of the rows, and of the keys that they see: the rows' own batches, and the last batches before them.

    Many full batches at once, or one with its queue.
    """
    full = count - count % size
    step = size if queue_batches else size * max(1, min(ROWS_AT_ONCE, ENTRIES_AT_ONCE // size) // size)
    for start, stop in pairwise(sorted({*range(0, full, step), full, count})):
        yield slice(start, stop), slice(max(0, start - queue_batches * size), stop)


def _tables(sides: tuple[Float32s, Float32s], first: int, height: int, loss: Loss) -> list[Float32s]:
    """(b, n, w) similarities of the rows of b batches to the keys that they see, by direction; −inf where one is none.

    sides: the keys in the order of the plan; first: of the rows among them. The last n columns are the own batch, but
    for the views of SimCLR, which follow.
    """
    queries = [side[first:].reshape(-1, height, side.shape[1]) for side in sides]
    keys = [side.reshape(len(queries[0]), -1, side.shape[1]).mT for side in sides]
    tables = [queries[0] @ keys[1]]
    if len(loss.sides) == 2:
        tables.append(tables[0].mT.copy() if first == 0 else queries[1] @ keys[0])
    same = np.eye(height, dtype=np.bool_)
    for side, table in enumerate(tables):
        if loss.queue_alone:
            table[:, :, -height:][:, ~same] = -np.inf
        elif loss.views:
            views = queries[side] @ queries[side].mT
            views[:, same] = -np.inf
            tables[side] = np.concatenate([table, views], axis=-1)
    return tables


def _hidden(
    suspects: SuspectPairs, perm: Ints, batch_size: int, queue_batches: int
) -> Callable[[slice, slice, int, int], Bools]:
    """What finds suspected pairs, by their places in the plan, in the tables of b batches of n rows: (b, n, w).

    Of many suspected pairs few meet in a plan, at most `queue_batches` batches apart, and only these are sorted.
    """
    place = inverse(perm)
    batch = place // batch_size
    meet = np.abs(batch[suspects.lower] - batch[suspects.higher]) <= queue_batches
    queries, keys = (place[ends] for ends in suspects.chosen(meet).both_ways())
    order = np.argsort(queries)
    queries, keys = queries[order], keys[order]
    groups, positives = (
        None if ids is None else group_numbers(ids[perm]) for ids in (suspects.groups, suspects.positives)
    )

    def find(rows: slice, seen: slice, batches: int, height: int) -> Bools:
        width = (seen.stop - seen.start) // batches
        first, stop = np.searchsorted(queries, [rows.start, rows.stop])
        batch, row = np.divmod(queries[first:stop] - rows.start, height)
        column = keys[first:stop] - seen.start - batch * height
        inside = column < width  # a row sees none of the batches after its own
        found = np.zeros((batches, height, width), np.bool_)
        found[batch[inside], row[inside], column[inside]] = True
        if groups is not None:
            mates = groups[rows].reshape(-1, height, 1) == groups[seen].reshape(-1, 1, width)
            if positives is not None:
                mates &= positives[rows].reshape(-1, height, 1) != positives[seen].reshape(-1, 1, width)
            found |= mates
        return found

    return find
