"""What each row sees inside its batch, for any order: log-sum-exp, least and largest similarity, number of keys."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import batches_of
from gcbs_cli.products.operations import FLOAT32_UNIT_ROUNDOFF
from gcbs_cli.products.suspects import Suspicion
from gcbs_cli.settings.report import Loss
from gcbs_cli.system.arrays import Bools, Float32s, Floats, Ints
from gcbs_cli.system.limits import available_cpus
from gcbs_cli.system.randomness import Stream
from gcbs_cli.system.threads import in_order

Result = TypeVar("Result")

ROWS_AT_ONCE = 1 << 12
TIE = 4 * FLOAT32_UNIT_ROUNDOFF
"""Two float32 products of equal rows differ by no more."""


@dataclass(frozen=True)
class Seen:
    """What each input row sees of some keys, in the S directions of a loss.

    log_sums: (2, T, S, N) log Σ exp(s / temperature) over them, and over those that are not suspected;
    hardest: (2, S, N) the largest similarity to a negative, likewise, −inf where there is none;
    batch: (N,) rows with the same number see each other.
    """

    log_sums: Floats
    hardest: Float32s
    batch: Ints


@dataclass(frozen=True)
class BatchSums(Seen):
    """What each input row sees in its batch.

    learnable: (T, S, N) the softmax weight of the negatives that are less similar than the positive;
    least: (S, N) the least similarity to a key, the own positive included; keys: (N,) their number; suspects: (N,) the
    number of rows of its batch that are suspected with it; negatives: (N,) Σ s_ij over the other rows of its batch.
    """

    learnable: Floats
    least: Float32s
    keys: Ints
    suspects: Ints
    negatives: Floats


@dataclass(frozen=True)
class BatchTables:
    """Similarities of the rows of b batches of n rows to the w keys that they see.

    rows: (b, n) input rows; directions: (b, n, w) each, −inf where one is no key; own: the places of the positives;
    mask: (b, n, w) the suspected entries; suspects: (b, n, n) those that join rows of one batch; negatives: (b, n) the
    sum of s_ij over the other rows of the batch.
    """

    rows: Ints
    directions: list[Float32s]
    own: Any
    mask: Bools
    suspects: Bools
    negatives: Floats


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
    pairs: PairedRows,
    perm: Ints,
    batch_size: int,
    temperatures: Sequence[float],
    loss: Loss,
    suspicion: Suspicion,
) -> BatchSums:
    """Cut `perm` into batches and sum what each row meets there; results are by input row, not by position."""
    count, directions = len(perm), len(loss.sides)
    sums = BatchSums(
        log_sums=np.empty((2, len(temperatures), directions, count)),
        hardest=np.empty((2, directions, count), np.float32),
        batch=batches_of(perm, batch_size),
        learnable=np.empty((len(temperatures), directions, count)),
        least=np.empty((directions, count), np.float32),
        keys=np.empty(count, np.int64),
        suspects=np.empty(count, np.int64),
        negatives=np.empty(count),
    )
    for tables in batch_tables(pairs, perm, batch_size, loss, suspicion):
        rows = tables.rows
        sums.suspects[rows] = np.count_nonzero(tables.suspects, axis=-1)
        sums.negatives[rows] = tables.negatives
        for side, values in enumerate(tables.directions):
            positives = values[tables.own]
            values[tables.own] = -np.inf
            for masked in (0, 1):
                if masked:
                    values[tables.mask] = -np.inf
                sums.hardest[masked, side, rows] = values.max(axis=-1)
                negatives = values
                if loss.top is not None and loss.top < values.shape[-1]:
                    negatives = np.partition(values, -loss.top, axis=-1)[..., -loss.top :]
                keys = np.concatenate([negatives, positives[..., None]], axis=-1)
                for number, temperature in enumerate(temperatures):
                    log_sums = log_sum_exp(keys, temperature)
                    sums.log_sums[masked, number, side, rows] = log_sums
                    if not masked:
                        others = np.where(keys < positives[..., None] - TIE, -np.inf, keys)  # the positive among them
                        sums.learnable[number, side, rows] = -np.expm1(log_sum_exp(others, temperature) - log_sums)
                if not masked:
                    finite = np.isfinite(keys)
                    sums.keys[rows] = np.count_nonzero(finite, axis=-1)
                    sums.least[side, rows] = np.where(finite, keys, np.inf).min(axis=-1)
    return sums


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
    step = size if queue_batches else size * max(1, ROWS_AT_ONCE // size)
    for start, stop in pairwise(sorted({*range(0, full, step), full, count})):
        yield slice(start, stop), slice(max(0, start - queue_batches * size), stop)


def batch_tables(
    pairs: PairedRows, perm: Ints, batch_size: int, loss: Loss, suspicion: Suspicion
) -> Iterator[BatchTables]:
    """The tables of all batches of an order, some batches at a time."""
    for rows, seen in _blocks(len(perm), batch_size, loss.queue_batches):
        height, first = min(batch_size, rows.stop - rows.start), rows.start - seen.start
        own = np.s_[:, range(height), range(first, first + height)]
        sides = pairs.x[perm[seen]], pairs.y[perm[seen]]  # some at a time: all would be as large as the data
        queries = [side[first:].reshape(-1, height, side.shape[1]) for side in sides]
        keys = [side.reshape(len(queries[0]), -1, side.shape[1]).mT for side in sides]
        there = queries[0] @ keys[1]
        back = queries[1] @ keys[0]
        places = perm[rows].reshape(-1, height)
        mask = suspicion.mask(there, back, places, perm[seen].reshape(len(places), -1))
        mask[own] = False
        suspects = mask[:, :, first:]
        negatives = there[:, :, first:].sum(axis=-1, dtype=np.float64) - there[own]
        directions = [there, back][: len(loss.sides)]
        same = np.eye(height, dtype=np.bool_)
        if loss.queue_alone:
            there[:, :, -height:][:, ~same] = -np.inf
        if loss.views:
            views = [side @ side.mT for side in queries]
            for each in views:
                each[:, same] = -np.inf
            directions = [np.concatenate(both, axis=-1) for both in zip(directions, views, strict=True)]
            mask = np.concatenate([mask, mask], axis=-1)
        yield BatchTables(places, directions, own, mask, suspects, negatives)
