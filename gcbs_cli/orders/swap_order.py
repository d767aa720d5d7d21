"""An order that swaps change, and which rows may change places in it."""

from typing import NamedTuple

import numpy as np

from gcbs_cli.system.arrays import Ints, inverse
from gcbs_cli.system.compiled import compiled

NO_LABELS = np.empty((0, 0), np.int64)


class Order(NamedTuple):
    """Where each row is: perm, place and batch, (N,) int64, belong together. labels: (G, N), as in `keep_apart`."""

    perm: Ints
    place: Ints
    batch: Ints
    labels: Ints
    batch_size: int


def order_of(perm: Ints, labels: Ints, batch_size: int) -> Order:
    """The order, over a copy of perm."""
    place = inverse(perm)
    return Order(perm.copy(), place, place // batch_size, np.ascontiguousarray(labels, np.int64), batch_size)


@compiled
def places_of(batch: int, order: Order) -> tuple[int, int]:
    """Where a batch begins and ends."""
    first = batch * order.batch_size
    return first, min(len(order.perm), first + order.batch_size)


@compiled
def rival(row: int, batch: int, ignored: int, order: Order) -> int:
    """The place of another row in a batch with a label of this row, `ignored` left out; −1 for none, −2 for several."""
    found = -1
    for place in range(*places_of(batch, order)):
        other = order.perm[place]
        if other in (row, ignored):
            continue
        for line in range(len(order.labels)):
            if order.labels[line, row] >= 0 and order.labels[line, row] == order.labels[line, other]:
                if found >= 0 and found != place:
                    return -2
                found = place
    return found


@compiled
def may_swap(u: int, v: int, order: Order) -> bool:
    """Whether two rows of different batches can change places, by their labels."""
    return order.batch[u] != order.batch[v] and (
        order.labels.size == 0
        or (rival(u, order.batch[v], v, order) == -1 and rival(v, order.batch[u], u, order) == -1)
    )


@compiled
def change_places(u: int, v: int, order: Order) -> None:
    """Swap two rows."""
    order.batch[u], order.batch[v] = order.batch[v], order.batch[u]
    order.perm[order.place[u]], order.perm[order.place[v]] = v, u
    order.place[u], order.place[v] = order.place[v], order.place[u]
