"""An order that swaps change, and which rows may change places in it: what both searches share."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.orders.keeping_apart import rival
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


class Heat(NamedTuple):
    """How much a swap may lose: `temperature` (nats, 0 for nothing) times exponential random numbers `draws`, which
    the rows use by their place, from `first` on.
    """

    temperature: float
    draws: NDArray[np.float64]
    first: int


class Around(NamedTuple):
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


def nothing_around(order: Order) -> Around:
    """Room for as many batches as there are."""
    batches = -(-len(order.perm) // order.batch_size)
    return Around(np.empty(batches, np.int64), np.zeros(batches), np.zeros(batches, np.bool_))


@compiled
def next_target(around: Around, tried: int, count: int) -> int:
    """The batch of most worth among those from `tried` on, which is moved to the front of them; the first of equals."""
    batches, most = around.batches, tried
    for q in range(tried + 1, count):
        if around.worth[batches[q]] > around.worth[batches[most]]:
            most = q
    there = batches[most]
    batches[most] = batches[tried]
    batches[tried] = there
    return there


@compiled
def best_to_leave(
    u: int, there: int, worth: NDArray[np.float64], own: NDArray[np.float64], near: NDArray[np.float64], order: Order
) -> int:
    """The place in the batch `there` of the row that u had best change places with; −1 where labels allow none.

    (N,) by place: worth of a row to the batch of u, to its own, and what is counted twice where it is a neighbour of u.
    """
    best, most = -1, -np.inf
    for p in range(there * order.batch_size, min(len(order.perm), (there + 1) * order.batch_size)):
        value = worth[p] - own[p] - near[p]
        if value > most and (order.labels.size == 0 or may_swap(u, order.perm[p], order)):
            best, most = p, value
    return best


@compiled
def may_swap(u: int, v: int, order: Order) -> bool:
    """Whether labels allow two rows to change places."""
    for one, other in ((u, v), (v, u)):
        first = order.batch[other] * order.batch_size
        if rival(one, first, min(len(order.perm), first + order.batch_size), other, order.perm, order.labels) != -1:
            return False
    return True


@compiled
def change_places(u: int, v: int, order: Order) -> None:
    """Swap two rows."""
    order.batch[u], order.batch[v] = order.batch[v], order.batch[u]
    order.perm[order.place[u]], order.perm[order.place[v]] = v, u
    order.place[u], order.place[v] = order.place[v], order.place[u]
