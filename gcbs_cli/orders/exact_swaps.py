"""Local search by swaps on the loss itself: every swap made lowers it, by the amount that is computed.

Row i sees log(1 + Σ share_ij) over its batch, in each direction; a second hard negative adds less than the first. A row
u tries the rows of its best few batches by what both would gain if the other's place were empty; the best of each batch
is then evaluated exactly, in time linear in the degrees of the two.
"""

from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.orders.swap_gains import SwapGains
from gcbs_cli.orders.swap_order import (
    LEAST_GAIN,
    TARGETS,
    NeighbourBatches,
    Order,
    Proposals,
    best_to_leave,
    change_places,
    clear_neighbours,
    list_batch,
    next_target,
    no_batches,
    places_of,
    still_apart,
)
from gcbs_cli.system.compiled import compiled

LARGEST_PRODUCT = 1e100
"""Factors are multiplied up to here, or down to its inverse, before their logarithm is taken: one takes as long as ten
products."""


class Sums(NamedTuple):
    """What the search keeps. Of each row: `sums` (N, 2), what its batch adds to its two, and `awake` (N,), whether
    something near it has changed since it was last tried; of each place: `own` (N,), what its row's staying is worth.
    """

    sums: NDArray[np.float64]
    own: NDArray[np.float64]
    awake: NDArray[np.bool_]


class ExactScratch(NamedTuple):
    """To work in, (N,) each but for `added`. By place: `joins`, zeros, what the batch in hand and a row would gain by
    its joining; `near`, zeros, what of that the row in hand adds. By row: `entry`, of −1.

    `added` (N, 2), zeros, and `product`, ones: what a batch would add to the sums of a row that joins, and by which
    factor the row would raise those of the batch; by place for the batch in hand, by batch for the row in hand.
    """

    around: NeighbourBatches
    joins: NDArray[np.float64]
    near: NDArray[np.float64]
    entry: NDArray[np.int64]
    added: NDArray[np.float64]
    product: NDArray[np.float64]


def empty_sums(rows: int) -> Sums:
    """Before anything is summed; all rows are awake."""
    return Sums(np.zeros((rows, 2)), np.zeros(rows), np.ones(rows, np.bool_))


def exact_scratch(order: Order) -> ExactScratch:
    """For one thread."""
    rows = len(order.perm)
    joins, near = np.zeros((2, rows))
    return ExactScratch(no_batches(order), joins, near, np.full(rows, -1), np.zeros((rows, 2)), np.ones(rows))


@compiled
def exact_objective(batch: NDArray[np.int64], gains: SwapGains, sums: NDArray[np.float64]) -> float:
    """Σ over rows of log(1 + Σ shares), x→y and y→x, less the penalties inside batches; fills `sums` (N, 2)."""
    total = 0.0
    for row in range(len(batch)):
        x, y, cost = 0.0, 0.0, 0.0
        for e in range(gains.indptr[row], gains.indptr[row + 1]):
            if batch[gains.indices[e]] == batch[row]:
                x += gains.shares[e, 0]
                y += gains.shares[e, 1]
                cost += gains.penalties[e]
        sums[row, 0], sums[row, 1] = x, y
        total += log((1.0 + x) * (1.0 + y)) - cost / 2.0
    return total


@compiled
def fill_worth_of_staying(order: Order, gains: SwapGains, sums: Sums) -> None:
    """`sums.own`, from sums.sums: what the objective loses when the row of a place leaves it empty."""
    for place in range(len(order.perm)):
        sums.own[place] = _worth_of_staying(order.perm[place], order.batch, gains, sums.sums)


@compiled
def _worth_of_staying(u: int, batch: NDArray[np.int64], gains: SwapGains, sums: NDArray[np.float64]) -> float:
    shares = gains.shares
    worth, product = 0.0, (1.0 + sums[u, 0]) * (1.0 + sums[u, 1])
    for e in range(gains.indptr[u], gains.indptr[u + 1]):
        i = gains.indices[e]
        if batch[i] == batch[u]:
            x, y = 1.0 + sums[i, 0], 1.0 + sums[i, 1]
            product *= x * y / ((x - shares[e, 2]) * (y - shares[e, 3]))
            worth -= gains.penalties[e]
            if product > LARGEST_PRODUCT:
                worth += log(product)
                product = 1.0
    return worth + log(product)


@compiled
def gain_of_swap(
    u: int,
    v: int,
    batch: NDArray[np.int64],
    gains: SwapGains,
    sums: NDArray[np.float64],
    entry: NDArray[np.int64],
) -> float:
    """By how much the objective rises when u and v change places. `entry`: (N,) of −1 to work in."""
    gain = 0.0
    for one, other in ((u, v), (v, u)):
        gain -= log((1.0 + sums[one, 0]) * (1.0 + sums[one, 1]))
        for e in range(gains.indptr[other], gains.indptr[other + 1]):
            entry[gains.indices[e]] = e
        # Neighbours of both are counted once, with what they lose and what they gain.
        gain += _gain_of_one(one, other, one == u, batch, gains, sums, entry)
        for e in range(gains.indptr[other], gains.indptr[other + 1]):
            entry[gains.indices[e]] = -1
    return gain


@compiled
def _gain_of_one(
    one: int,
    other: int,
    with_common: bool,
    batch: NDArray[np.int64],
    gains: SwapGains,
    sums: NDArray[np.float64],
    entry: NDArray[np.int64],
) -> float:
    """What `one` sees in the other's batch, and what its neighbours gain by its going there; `entry`: of the other."""
    shares, here, there = gains.shares, batch[one], batch[other]
    x, y, product, gain = 1.0, 1.0, 1.0, 0.0
    for e in range(gains.indptr[one], gains.indptr[one + 1]):
        i = gains.indices[e]
        f = entry[i]
        if i == other or (batch[i] != here and batch[i] != there):
            continue
        sign = -1.0 if batch[i] == here else 1.0
        gain -= sign * gains.penalties[e]
        if sign > 0.0:
            x += shares[e, 0]
            y += shares[e, 1]
        if f >= 0 and not with_common:
            continue
        to_x, to_y = sign * shares[e, 2], sign * shares[e, 3]
        if f >= 0:
            to_x -= sign * shares[f, 2]
            to_y -= sign * shares[f, 3]
        product *= (1.0 + to_x / (1.0 + sums[i, 0])) * (1.0 + to_y / (1.0 + sums[i, 1]))
        if not LARGEST_PRODUCT > product > 1.0 / LARGEST_PRODUCT:
            gain += log(product)
            product = 1.0
    return gain + log(product) + log(x * y)


@compiled
def propose_exact(
    order: Order, gains: SwapGains, sums: Sums, proposals: Proposals, visits: NDArray[np.int64], scratch: ExactScratch
) -> None:
    """A swap that gains for each place of some batches whose row is awake, none of them made.

    Rows for which none is found fall asleep.
    """
    for here in visits:
        first, stop = places_of(here, order)
        proposals.partner[first:stop] = -1
        if not _any_awake(first, stop, order, sums.awake):
            continue
        for p in range(first, stop):
            _join(order.perm[p], order.place, gains, sums.sums, scratch)
        for p in range(first, stop):
            _finish_joins(order.perm[p], order.place, gains, scratch)
        for p in range(first, stop):
            u = order.perm[p]
            proposals.row[p] = u
            if sums.awake[u]:
                proposals.partner[p] = _partner(u, order, gains, sums, scratch)
                sums.awake[u] = proposals.partner[p] >= 0
        for p in range(first, stop):
            clear_neighbours(order.perm[p], order, gains, scratch.joins)


@compiled
def _any_awake(first: int, stop: int, order: Order, awake: NDArray[np.bool_]) -> bool:
    found = False
    for p in range(first, stop):
        found |= awake[order.perm[p]]
    return found


@compiled
def _join(
    row: int, place: NDArray[np.int64], gains: SwapGains, sums: NDArray[np.float64], scratch: ExactScratch
) -> None:
    """Let a row of the batch in hand count in what others would gain by joining it."""
    shares = gains.shares
    x, y = 1.0 / (1.0 + sums[row, 0]), 1.0 / (1.0 + sums[row, 1])
    for e in range(gains.indptr[row], gains.indptr[row + 1]):
        v = place[gains.indices[e]]
        scratch.joins[v] -= gains.penalties[e]
        scratch.added[v, 0] += shares[e, 2]
        scratch.added[v, 1] += shares[e, 3]
        scratch.product[v] *= (1.0 + shares[e, 0] * x) * (1.0 + shares[e, 1] * y)
        if scratch.product[v] > LARGEST_PRODUCT:
            scratch.joins[v] += log(scratch.product[v])
            scratch.product[v] = 1.0


@compiled
def _finish_joins(row: int, place: NDArray[np.int64], gains: SwapGains, scratch: ExactScratch) -> None:
    """Count what the neighbours of a row would see in the batch in hand, each once."""
    added = scratch.added
    for e in range(gains.indptr[row], gains.indptr[row + 1]):
        v = place[gains.indices[e]]
        if added[v, 0] != 0.0 or added[v, 1] != 0.0 or scratch.product[v] != 1.0:
            scratch.joins[v] += log(scratch.product[v]) + log((1.0 + added[v, 0]) * (1.0 + added[v, 1]))
            added[v, 0], added[v, 1], scratch.product[v] = 0.0, 0.0, 1.0


@compiled
def _partner(u: int, order: Order, gains: SwapGains, sums: Sums, scratch: ExactScratch) -> int:
    """The first row found to change places with that gains; −1 for none."""
    around, partner = scratch.around, -1
    count = _look_around(u, order, gains, sums.sums, scratch)
    for t in range(min(TARGETS, count)):
        there = next_target(around, t, count)
        p = best_to_leave(u, there, scratch.joins, sums.own, scratch.near, order)
        if p < 0 or around.worth[there] - sums.own[order.place[u]] + scratch.joins[p] - sums.own[p] <= 0.0:
            continue
        if gain_of_swap(u, order.perm[p], order.batch, gains, sums.sums, scratch.entry) > LEAST_GAIN:
            partner = order.perm[p]
            break
    clear_neighbours(u, order, gains, scratch.near)
    return partner


@compiled
def _look_around(u: int, order: Order, gains: SwapGains, sums: NDArray[np.float64], scratch: ExactScratch) -> int:
    """Fill `around` with the other batches where u has neighbours and what its joining would gain; returns how many."""
    shares, around, count = gains.shares, scratch.around, 0
    for e in range(gains.indptr[u], gains.indptr[u + 1]):
        i = gains.indices[e]
        there = order.batch[i]
        if there == order.batch[u]:
            continue
        count = list_batch(there, around, count)
        factor = (1.0 + shares[e, 2] / (1.0 + sums[i, 0])) * (1.0 + shares[e, 3] / (1.0 + sums[i, 1]))
        around.worth[there] -= gains.penalties[e]
        scratch.added[there, 0] += shares[e, 0]
        scratch.added[there, 1] += shares[e, 1]
        scratch.product[there] *= factor
        scratch.near[order.place[i]] = 2.0 * (log(factor) - gains.penalties[e])
        if scratch.product[there] > LARGEST_PRODUCT:
            around.worth[there] += log(scratch.product[there])
            scratch.product[there] = 1.0
    for q in range(count):
        there = around.batches[q]
        around.seen[there] = False
        around.worth[there] += log(scratch.product[there]) + log(
            (1.0 + scratch.added[there, 0]) * (1.0 + scratch.added[there, 1])
        )
        scratch.added[there, 0], scratch.added[there, 1], scratch.product[there] = 0.0, 0.0, 1.0
    return count


@compiled
def make_exact(
    order: Order,
    gains: SwapGains,
    sums: Sums,
    visits: NDArray[np.int64],
    entry: NDArray[np.int64],
    proposals: Proposals,
) -> int:
    """Make the swaps proposed for some batches that still gain, in turn; returns how many.

    Changes `sums` too, and wakes the rows around those that moved. `entry`: (N,) of −1 to work in.
    """
    swaps = 0
    for here in visits:
        for p in range(*places_of(here, order)):
            u, v = proposals.row[p], proposals.partner[p]
            if not still_apart(u, v, order):
                continue
            if gain_of_swap(u, v, order.batch, gains, sums.sums, entry) > LEAST_GAIN:
                _swap(u, v, order, gains, sums)
                swaps += 1
    return swaps


@compiled
def _swap(u: int, v: int, order: Order, gains: SwapGains, sums: Sums) -> None:
    """Let u and v change places; sums and own follow."""
    for sign in (-1.0, 1.0):
        for one in (u, v):
            _change_sums(one, sign, order.batch, gains, sums.sums)
        if sign < 0.0:
            change_places(u, v, order)
    for one in (u, v):
        sums.own[order.place[one]] = _worth_of_staying(one, order.batch, gains, sums.sums)
        sums.awake[one] = True
        for e in range(gains.indptr[one], gains.indptr[one + 1]):
            i = int(gains.indices[e])
            sums.awake[i] = True
            if order.batch[i] == order.batch[u] or order.batch[i] == order.batch[v]:
                sums.own[order.place[i]] = _worth_of_staying(i, order.batch, gains, sums.sums)


@compiled
def _change_sums(one: int, sign: float, batch: NDArray[np.int64], gains: SwapGains, sums: NDArray[np.float64]) -> None:
    """Let a row join (sign 1) the others of its batch, or leave (−1) them; its own sums are those after joining."""
    shares, x, y = gains.shares, 0.0, 0.0
    for e in range(gains.indptr[one], gains.indptr[one + 1]):
        i = gains.indices[e]
        if batch[i] == batch[one]:
            x += shares[e, 0]
            y += shares[e, 1]
            # Never below what rounding leaves: a sum of shares is not negative.
            sums[i, 0] = max(0.0, sums[i, 0] + sign * shares[e, 2])
            sums[i, 1] = max(0.0, sums[i, 1] + sign * shares[e, 3])
    sums[one, 0], sums[one, 1] = x, y
