"""Rows that change places in an order, and those that must never share a batch: a plan made so with few changes."""

from typing import NamedTuple

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.orders.dealing_apart import deal_apart
from gcbs_cli.system.arrays import Float32s, Ints, equal_rows, inverse
from gcbs_cli.system.compiled import compiled
from gcbs_cli.system.errors import BadInput

NO_LABELS = np.empty((0, 0), np.int64)
LOOKS = 1 << 25
"""Batches that swaps look at before rows with one or two kinds of labels are dealt anew instead."""


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
def places_of(batch: int, order: Order) -> range:
    """Where the rows of a batch lie."""
    first = batch * order.batch_size
    return range(first, min(len(order.perm), first + order.batch_size))


@compiled
def rival(row: int, batch: int, ignored: int, order: Order) -> int:
    """The place of another row in a batch with a label of this row, `ignored` left out; −1 for none, −2 for several."""
    found = -1
    for place in places_of(batch, order):
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


def duplicate_labels(side: Float32s) -> Ints:
    """(N,) the same label for rows of equal content, −1 for rows that are alone; equal after scaling to unit length."""
    numbers = equal_rows(side)[1]
    return np.where(np.bincount(numbers)[numbers] > 1, numbers, -1)


def labels_of(pair: PairedRows, groups: Ints | None, *, no_duplicates: bool) -> Ints:
    """(G, N) int64: rows with the same label >= 0 on one line never share a batch."""
    lines = [] if groups is None else [groups]
    if no_duplicates:
        lines += [duplicate_labels(pair.x), duplicate_labels(pair.y)]
    lines = [line for line in lines if (line >= 0).any()]
    return np.stack(lines) if lines else NO_LABELS


def check_possible(labels: Ints, rows: int, batch_size: int, option: str) -> None:
    """Raises BadInput when the rows of one label cannot all be in different batches.

    Where no label has more rows than there are batches, Gale's (1957) and Ryser's (1957) condition is that the labels
    with a row for every batch fit into the last one, which may be short.
    """
    batches = -(-rows // batch_size)
    for line in labels:
        _, counts = np.unique(line[line >= 0], return_counts=True)
        if counts.max(initial=0) > batches:
            raise BadInput(
                f"{option}: one group has {counts.max():,} rows, and there are {batches:,} batches of {batch_size}: "
                f"some would have to share one; use a smaller --batch-size or split the group"
            )
        if np.count_nonzero(counts == batches) > rows - batch_size * (batches - 1):
            raise BadInput(f"{option}: the groups are too large to keep apart in batches of {batch_size}")


def keep_apart(perm: Ints, labels: Ints, batch_size: int, seed: int) -> Ints:
    """The order with as few swaps as found so that no batch holds two rows of one label.

    Each row that shares a label in its batch changes places with the first row, from a random batch on, that makes no
    conflict there or here. Where swaps find no way and there are at most two kinds of labels, all rows are dealt anew,
    which finds a way if there is one. Raises BadInput where none is found.
    """
    if labels.size == 0:
        return perm
    order = order_of(perm, labels, batch_size)
    reach = batches = -(-len(perm) // batch_size)
    if len(labels) <= 2:
        reach = min(batches, max(1, LOOKS // (1 + conflicts(perm, labels, batch_size))))
    _repair(order, np.random.default_rng([seed, 0xA9A27]).integers(batches, size=len(perm)), reach)
    left = conflicts(order.perm, labels, batch_size)
    if left == 0:
        return order.perm
    dealt = deal_apart(perm, labels, batch_size) if len(labels) <= 2 else None
    if dealt is None:
        raise BadInput(f"--groups, --no-duplicates: {left:,} rows could not be kept apart from their own group")
    return dealt


def conflicts(perm: Ints, labels: Ints, batch_size: int) -> int:
    """How many rows share a batch with an earlier row of the same label."""
    batch, found = np.arange(len(perm)) // batch_size, 0
    for line in labels:
        placed = line[perm]
        keys = batch[placed >= 0] * (int(line.max()) + 1) + placed[placed >= 0]
        found += len(keys) - len(np.unique(keys))
    return found


@compiled
def _repair(order: Order, starts: Ints, reach: int) -> None:
    """Swap rows until none shares a label in its batch, as far as that goes. `reach`: batches tried for each."""
    for place in range(len(order.perm)):
        row = order.perm[place]
        if rival(row, order.batch[row], -1, order) != -1:
            _swap_away(row, starts[place], reach, order)


@compiled
def _swap_away(row: int, start: int, reach: int, order: Order) -> None:
    """Let a row change places with the first, from a batch on, that makes no conflict there or here."""
    here, batches = order.batch[row], -(-len(order.perm) // order.batch_size)
    for step in range(reach):
        there = (start + step) % batches
        # A batch with one rival can take the row in its rival's place alone.
        only = rival(row, there, -1, order)
        if only == -2 or there == here:
            continue
        for place in places_of(there, order):
            other = order.perm[place]
            if only in (-1, place) and rival(other, here, row, order) == -1:
                change_places(row, other, order)
                return
