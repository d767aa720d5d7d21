"""Local search by swaps on an objective of pairs: the worth of every two rows that share a batch, added up.

A swap of u (in batch A) and v (in batch B) gains W(u, B) − W(u, A) + W(v, A) − W(v, B) − 2 w(u, v). One batch A is in
hand at a time; W(·, A) is kept for all rows, so that a row u tries all rows of its best few batches for a memory access
each. Swaps that lose are accepted as in simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983), so that worths that are
shared out badly at the start can be shared out again.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.orders.swap_gains import Pairs
from gcbs_cli.orders.swap_order import (
    LEAST_GAIN,
    TARGETS,
    Annealing,
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


class LinearScratch(NamedTuple):
    """To work in: (N,) zeros, by place, a row's worth to the batch in hand and twice that to the row in hand."""

    around: NeighbourBatches
    to_batch: NDArray[np.float64]
    near: NDArray[np.float64]


def linear_scratch(order: Order) -> LinearScratch:
    """For one thread."""
    return LinearScratch(no_batches(order), *np.zeros((2, len(order.perm))))


@compiled
def linear_objective(order: Order, pairs: Pairs, own: NDArray[np.float64]) -> float:
    """Σ worth over pairs that share a batch; fills `own` (N,) with each place's part."""
    total = 0.0
    for row in range(len(order.perm)):
        part = 0.0
        for e in range(pairs.indptr[row], pairs.indptr[row + 1]):
            if order.batch[pairs.indices[e]] == order.batch[row]:
                part += pairs.worth[e]
        own[order.place[row]] = part
        total += part
    return total / 2.0


@compiled
def propose_linear(
    order: Order,
    pairs: Pairs,
    own: NDArray[np.float64],
    annealing: Annealing,
    proposals: Proposals,
    visits: NDArray[np.int64],
    scratch: LinearScratch,
) -> None:
    """A swap for each place of some batches, none of them made. `own`: (N,) by place, a row's worth to its batch."""
    for here in visits:
        first, stop = places_of(here, order)
        for p in range(first, stop):
            _add_worth(order.perm[p], order.place, pairs, scratch.to_batch)
        for p in range(first, stop):
            u = order.perm[p]
            proposals.row[p] = u
            _choose(p, order, pairs, own, annealing, scratch, proposals)
        for p in range(first, stop):
            clear_neighbours(order.perm[p], order, pairs, scratch.to_batch)


@compiled
def _choose(
    place: int,
    order: Order,
    pairs: Pairs,
    own: NDArray[np.float64],
    annealing: Annealing,
    scratch: LinearScratch,
    proposals: Proposals,
) -> None:
    """Propose the first swap that gains enough for the row at a place, whose best batches are tried in turn."""
    u = order.perm[place]
    proposals.partner[place] = -1
    count = _look_around(u, order, pairs, scratch)
    for t in range(min(TARGETS, count)):
        there = next_target(scratch.around, t, count)
        p = best_to_leave(u, there, scratch.to_batch, own, scratch.near, order)
        if p < 0:
            continue
        gain = scratch.around.worth[there] - own[place] + scratch.to_batch[p] - own[p] - scratch.near[p]
        draw = annealing.draws[(annealing.first + TARGETS * place + t) % len(annealing.draws)]
        least = LEAST_GAIN - annealing.temperature * draw
        if gain > least:
            proposals.partner[place], proposals.least[place] = order.perm[p], least
            break
    clear_neighbours(u, order, pairs, scratch.near)


@compiled
def _look_around(u: int, order: Order, pairs: Pairs, scratch: LinearScratch) -> int:
    """Fill `around` with the other batches where u has neighbours, and their worth, and `near`; returns how many."""
    around, count = scratch.around, 0
    for e in range(pairs.indptr[u], pairs.indptr[u + 1]):
        scratch.near[order.place[pairs.indices[e]]] = 2.0 * pairs.worth[e]
        there = order.batch[pairs.indices[e]]
        if there != order.batch[u]:
            count = list_batch(there, around, count)
            around.worth[there] += pairs.worth[e]
    for q in range(count):
        around.seen[around.batches[q]] = False
    return count


@compiled
def make_linear(
    order: Order, pairs: Pairs, own: NDArray[np.float64], visits: NDArray[np.int64], proposals: Proposals
) -> int:
    """Make the swaps proposed for some batches that still gain enough, in turn; returns how many. Changes `own` too."""
    swaps = 0
    for here in visits:
        for p in range(*places_of(here, order)):
            u, v = proposals.row[p], proposals.partner[p]
            if not still_apart(u, v, order):
                continue
            gain = _worth_to(u, v, order, pairs) + _worth_to(v, u, order, pairs)
            gain -= own[order.place[u]] + own[order.place[v]]
            if gain > proposals.least[p]:
                _change_own(u, -1.0, order, pairs, own)
                _change_own(v, -1.0, order, pairs, own)
                change_places(u, v, order)
                own[order.place[u]] = _change_own(u, 1.0, order, pairs, own)
                own[order.place[v]] = _change_own(v, 1.0, order, pairs, own)
                swaps += 1
    return swaps


@compiled
def _worth_to(row: int, other: int, order: Order, pairs: Pairs) -> float:
    """What a row is worth to the batch of another without that."""
    total = 0.0
    for e in range(pairs.indptr[row], pairs.indptr[row + 1]):
        i = pairs.indices[e]
        if order.batch[i] == order.batch[other] and i != other:
            total += pairs.worth[e]
    return total


@compiled
def _add_worth(row: int, place: NDArray[np.int64], pairs: Pairs, worth: NDArray[np.float64]) -> None:
    for e in range(pairs.indptr[row], pairs.indptr[row + 1]):
        worth[place[pairs.indices[e]]] += pairs.worth[e]


@compiled
def _change_own(row: int, sign: float, order: Order, pairs: Pairs, own: NDArray[np.float64]) -> float:
    """Add what a row is worth to the others of its batch to theirs; returns the sum."""
    total = 0.0
    for e in range(pairs.indptr[row], pairs.indptr[row + 1]):
        i = pairs.indices[e]
        if order.batch[i] == order.batch[row]:
            own[order.place[i]] += sign * pairs.worth[e]
            total += pairs.worth[e]
    return total
