"""An order that swaps change, and which rows may change places in it: what both searches share."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.orders.keeping_apart import rival
from gcbs_cli.orders.swap_gains import Pairs, SwapGains
from gcbs_cli.system.arrays import inverse
from gcbs_cli.system.compiled import compiled

TARGETS = 3
"""Batches tried for each row: those with most worth to it."""
LEAST_GAIN = 1e-6
"""A swap must gain so much, in nats: less may be rounding, and could be swapped back and forth."""


class Order(NamedTuple):
    """Where each row is: perm, place and batch, (N,) int64, belong together. labels: (G, N), as in `keep_apart`."""

    perm: NDArray[np.int64]
    place: NDArray[np.int64]
    batch: NDArray[np.int64]
    labels: NDArray[np.int64]
    batch_size: int


class Proposals(NamedTuple):
    """For each place (N,): the row there, the row to change places with (−1 for none), and what the swap must gain."""

    row: NDArray[np.int64]
    partner: NDArray[np.int64]
    least: NDArray[np.float64]


class Annealing(NamedTuple):
    """How much a swap may lose: `temperature` (nats, 0 for nothing) times exponential random numbers `draws`, which
    the rows use by their place, from `first` on.
    """

    temperature: float
    draws: NDArray[np.float64]
    first: int


class NeighbourBatches(NamedTuple):
    """(B,) each: the batches where a row has neighbours, listed first, and by batch what they are worth to it."""

    batches: NDArray[np.int64]
    worth: NDArray[np.float64]
    seen: NDArray[np.bool_]


def order_of(perm: NDArray[np.int64], labels: NDArray[np.int64], batch_size: int) -> Order:
    """The order, over a copy of perm."""
    place = inverse(perm)
    return Order(perm.copy(), place, place // batch_size, np.ascontiguousarray(labels, np.int64), batch_size)


def no_proposals(rows: int) -> Proposals:
    """Room for one a place."""
    return Proposals(np.zeros(rows, np.int64), np.full(rows, -1), np.zeros(rows))


def no_batches(order: Order) -> NeighbourBatches:
    """Room for as many batches as there are."""
    batches = -(-len(order.perm) // order.batch_size)
    return NeighbourBatches(np.empty(batches, np.int64), np.zeros(batches), np.zeros(batches, np.bool_))


@compiled
def places_of(batch: int, order: Order) -> tuple[int, int]:
    """Where a batch begins and ends."""
    first = batch * order.batch_size
    return first, min(len(order.perm), first + order.batch_size)


@compiled
def list_batch(batch: int, around: NeighbourBatches, count: int) -> int:
    """List a batch, worth nothing yet, unless it is one of the `count` listed; returns how many there are then."""
    if around.seen[batch]:
        return count
    around.seen[batch] = True
    around.batches[count] = batch
    around.worth[batch] = 0.0
    return count + 1


@compiled
def next_target(around: NeighbourBatches, tried: int, count: int) -> int:
    """The batch of most worth among those from `tried` on, which is moved to the front of them; the first of equals."""
    batches, most = around.batches, tried
    for q in range(tried + 1, count):
        if around.worth[batches[q]] > around.worth[batches[most]]:
            most = q
    batches[tried], batches[most] = batches[most], batches[tried]
    return batches[tried]


@compiled
def clear_neighbours(row: int, order: Order, edges: SwapGains | Pairs, values: NDArray[np.float64]) -> None:
    """Set the values of a row's neighbours, (N,) by place, to zero."""
    for e in range(edges.indptr[row], edges.indptr[row + 1]):
        values[order.place[edges.indices[e]]] = 0.0


@compiled
def best_to_leave(
    u: int, there: int, worth: NDArray[np.float64], own: NDArray[np.float64], near: NDArray[np.float64], order: Order
) -> int:
    """The place in the batch `there` of the row that u had best change places with; −1 where labels allow none.

    (N,) by place: worth of a row to the batch of u, to its own, and what is counted twice where it is a neighbour of u.
    """
    best, most = -1, -np.inf
    for p in range(*places_of(there, order)):
        value = worth[p] - own[p] - near[p]
        if value > most and (order.labels.size == 0 or may_swap(u, order.perm[p], order)):
            best, most = p, value
    return best


@compiled
def may_swap(u: int, v: int, order: Order) -> bool:
    """Whether labels allow two rows to change places."""
    for one, other in ((u, v), (v, u)):
        first, stop = places_of(order.batch[other], order)
        if rival(one, first, stop, other, order.perm, order.labels) != -1:
            return False
    return True


@compiled
def still_apart(u: int, v: int, order: Order) -> bool:
    """Whether a proposed partner is another batch's row that labels still allow."""
    return v >= 0 and order.batch[u] != order.batch[v] and (order.labels.size == 0 or may_swap(u, v, order))


@compiled
def change_places(u: int, v: int, order: Order) -> None:
    """Swap two rows."""
    order.batch[u], order.batch[v] = order.batch[v], order.batch[u]
    order.perm[order.place[u]], order.perm[order.place[v]] = v, u
    order.place[u], order.place[v] = order.place[v], order.place[u]
