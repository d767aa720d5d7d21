"""Rows that change places in an order, and those that must never share a batch: a plan made so with few changes.

A row that shares a batch with its label changes places with the nearest row such that both are alone with their labels.
Where there is none, it changes places with a row that leaves the fewest conflicts, and the row that came for it is next
(min-conflicts: Minton et al. 1992), as each frees another place; rows of one kind of labels nearly always find theirs.
"""

from typing import NamedTuple

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.system.arrays import Float32s, Ints, equal_rows, group_numbers, inverse
from gcbs_cli.system.compiled import compiled
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.randomness import Stream

NO_LABELS = np.empty((0, 0), np.int64)
LOOKS_A_ROW = 4
"""How often rows are looked at on average before it is given up to keep them apart: once, and after each swap."""


class Order(NamedTuple):
    """Where each row is: perm, place and batch, (N,) int64, belong together. labels: (G, N) below 2N, a line a kind."""

    perm: Ints
    place: Ints
    batch: Ints
    labels: Ints
    batch_size: int


def order_of(perm: Ints, labels: Ints, batch_size: int) -> Order:
    """The order, over a copy of perm; a row without a label, which is −1, gets one of its own."""
    place = inverse(perm)
    numbers = np.array([group_numbers(line) for line in labels], np.int64).reshape(-1, len(perm))
    return Order(perm.copy(), place, place // batch_size, numbers, batch_size)


@compiled
def places_of(batch: int, order: Order) -> range:
    """Where the rows of a batch lie."""
    first = batch * order.batch_size
    return range(first, min(len(order.perm), first + order.batch_size))


@compiled
def rivals(row: int, batch: int, ignored: int, order: Order) -> int:
    """How many labels of a row other rows of a batch have, one row there left out."""
    count = 0
    for place in places_of(batch, order):
        other = order.perm[place]
        if other != ignored:
            for line in range(len(order.labels)):
                count += order.labels[line, row] == order.labels[line, other]
    return count


@compiled
def may_swap(u: int, v: int, order: Order) -> bool:
    """Whether two rows of different batches can change places, by their labels."""
    if order.batch[u] == order.batch[v]:
        return False
    if order.labels.size == 0:
        return True
    return rivals(u, order.batch[v], v, order) + rivals(v, order.batch[u], u, order) == 0


@compiled
def change_places(u: int, v: int, order: Order) -> None:
    """Swap two rows."""
    order.batch[u], order.batch[v] = order.batch[v], order.batch[u]
    order.perm[order.place[u]] = v
    order.perm[order.place[v]] = u
    order.place[u], order.place[v] = order.place[v], order.place[u]


def duplicate_labels(side: Float32s) -> Ints:
    """(N,) the same label for rows that are equal after scaling to unit length, −1 for rows like no other."""
    numbers = equal_rows(side)[1]
    return np.where(np.bincount(numbers)[numbers] > 1, numbers, -1)


def labels_of(pairs: PairedRows, groups: Ints | None, *, no_duplicates: bool) -> Ints:
    """(G, N) int64: rows with the same label >= 0 on one line never share a batch."""
    lines = [] if groups is None else [groups]
    if no_duplicates:
        lines += [duplicate_labels(pairs.x), duplicate_labels(pairs.y)]
    lines = [line for line in lines if (line >= 0).any()]
    return np.stack(lines) if lines else NO_LABELS


def check_possible(labels: Ints, rows: int, batch_size: int, option: str) -> None:
    """Raises BadInput where a label has more rows than there are batches."""
    batches = -(-rows // batch_size)
    for line in labels:
        largest = np.bincount(group_numbers(line)).max()
        if largest > batches:
            raise BadInput(
                f"{option}: one group has {largest:,} rows, and there are {batches:,} batches of {batch_size}: "
                f"some would have to share one; use a smaller --batch-size or split the group"
            )


def keep_apart(perm: Ints, labels: Ints, batch_size: int, seed: int) -> Ints:
    """The order, changed near where rows of one label share a batch, so that none does. Raises BadInput if some do."""
    if labels.size == 0:
        return perm
    order = order_of(perm, labels, batch_size)
    if not _separate(order, Stream.KEEPING_APART.generator(seed)):
        raise BadInput(
            "--groups, --no-duplicates: some rows could not be kept apart from their group; use a smaller --batch-size"
        )
    return order.perm


@compiled
def _separate(order: Order, generator: np.random.Generator) -> bool:
    """Swap rows until none has a rival in its batch; False where it gives up before."""
    held = np.zeros((len(order.labels), 2 * len(order.perm)), np.int64)
    waiting = list(order.perm)
    looks = 0
    while looks < min(len(waiting), LOOKS_A_ROW * len(order.perm)):
        row = waiting[looks]
        looks += 1
        if rivals(row, order.batch[row], row, order) > 0:
            partner = _best_partner(row, order, held, looks, generator)
            change_places(row, partner, order)
            waiting.append(row)
            waiting.append(partner)
    return looks == len(waiting)


@compiled
def _best_partner(row: int, order: Order, held: Ints, look: int, generator: np.random.Generator) -> int:
    """The nearest row with which a swap leaves no conflict of the two, or one of those that leave the fewest.

    held: (G, 2N) scratch, in which the number of this look marks the labels that the other rows of the batch have.
    """
    here = order.batch[row]
    for place in places_of(here, order):
        if order.perm[place] != row:
            for line in range(len(order.labels)):
                held[line, order.labels[line, order.perm[place]]] = look
    batches = 1 + order.batch.max()
    partner = -1
    fewest = np.inf
    for step in range(2, batches + 2):  # one back, one on, two back, …
        distance = step // 2 if step % 2 else -(step // 2)
        there = (here + distance) % batches
        conflicts = rivals(row, there, row, order)
        if there == here or conflicts >= fewest:
            continue
        for place in places_of(there, order):
            other = order.perm[place]
            count = float(conflicts)
            for line in range(len(order.labels)):
                label = order.labels[line, other]
                count += held[line, label] == look
                count -= label == order.labels[line, row]  # the two do not meet there
            if count > 0.0:
                count += generator.random()
            if count < fewest:
                fewest = count
                partner = other
        if fewest == 0.0:
            break
    return partner
