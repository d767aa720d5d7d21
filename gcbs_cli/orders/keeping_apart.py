"""Rows that change places in an order, and those that must never share a batch: a plan made so with few changes.

A batch that holds a label twice and the nearest batch that lacks it are divided anew: of each label that they hold
twice or more, two rows must part. With one or two kinds of labels these links make paths and even cycles, for rows are
edges between the labels of a bipartite graph. So all can part, and equal batches stay equal once some paths of odd
length are turned over; each division takes one row more apart from its label, and none meets another.
"""

from typing import NamedTuple

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.orders.last_batch import with_last_batch
from gcbs_cli.system.arrays import Float32s, Ints, equal_rows, group_numbers, grouped, inverse
from gcbs_cli.system.compiled import compiled
from gcbs_cli.system.errors import BadInput

NO_LABELS = np.empty((0, 0), np.int64)


class Order(NamedTuple):
    """Where each row is: perm, place and batch, (N,) int64, belong together. labels: (G, N) below 2N, by kind."""

    perm: Ints
    place: Ints
    batch: Ints
    labels: Ints
    batch_size: int


def order_of(perm: Ints, labels: Ints, batch_size: int) -> Order:
    """The order, over a copy of perm; a row without a label, which is −1, has one of its own."""
    place = inverse(perm)
    numbers = np.array([group_numbers(line) for line in labels], np.int64).reshape(-1, len(perm))
    return Order(perm.copy(), place, place // batch_size, numbers, batch_size)


@compiled
def places_of(batch: int, order: Order) -> range:
    """Where the rows of a batch lie."""
    first = batch * order.batch_size
    return range(first, min(len(order.perm), first + order.batch_size))


@compiled
def has_rival(row: int, batch: int, ignored: int, order: Order) -> bool:
    """Whether another batch holds a label of a row, one row there left out."""
    for place in places_of(batch, order):
        other = order.perm[place]
        if other != ignored:
            for line in range(len(order.labels)):
                if order.labels[line, row] == order.labels[line, other]:
                    return True
    return False


@compiled
def may_swap(u: int, v: int, order: Order) -> bool:
    """Whether two rows of different batches can change places, by their labels."""
    return order.batch[u] != order.batch[v] and (
        order.labels.size == 0 or not (has_rival(u, order.batch[v], v, order) or has_rival(v, order.batch[u], u, order))
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


def keep_apart(perm: Ints, labels: Ints, batch_size: int) -> Ints:
    """The order, changed near where rows of one label share a batch, so that none does.

    Finds a way wherever there is one for one or two kinds of labels. Raises BadInput where none is found.
    """
    if labels.size == 0:
        return perm
    order = order_of(perm, labels, batch_size)
    full, short = divmod(len(perm), batch_size)
    left = _separate_all(order, full + bool(short))
    if left and short and len(labels) <= 2:
        order = order_of(with_last_batch(perm, order.labels, full, short), labels, batch_size)
        left = _separate_all(order, full)
    if left:
        raise BadInput(f"--groups, --no-duplicates: {left:,} rows could not be kept apart from their own group")
    return order.perm


def conflicts(perm: Ints, labels: Ints, batch_size: int) -> int:
    """How many rows share a batch with an earlier row of the same label."""
    batch, found = np.arange(len(perm)) // batch_size, 0
    for line in labels:
        placed = line[perm]
        keys = batch[placed >= 0] * (int(line.max()) + 1) + placed[placed >= 0]
        found += len(keys) - len(np.unique(keys))
    return found


def _separate_all(order: Order, batches: int) -> int:
    """Take rows of one label apart, within the first so many batches; how many are left.

    Of three kinds or more some may never part: the rounds end with one that leaves more than nine tenths.
    """
    kinds = [grouped(line, 2 * len(order.perm)) for line in order.labels]
    left, before, share = order.labels.size, np.inf, 1.0 if len(kinds) <= 2 else 0.9
    while 0 < left < share * before:
        for line, kind in enumerate(kinds):
            _separate(line, *kind, order, batches)
        before, left = left, conflicts(order.perm, order.labels, order.batch_size)
    return left


@compiled
def _separate(line: int, members: Ints, starts: Ints, order: Order, batches: int) -> None:
    """Divide each batch that holds a label twice anew, with the nearest ones that lack it."""
    held, found = np.zeros(1 + order.batch.max(), np.int64), np.full(len(starts), -1)
    for label in range(len(starts) - 1):
        rows = members[starts[label] : starts[label + 1]]
        for row in rows:
            held[order.batch[row]] += 1
        for row in rows:
            for step in range(2, batches + 2):  # one back, one on, two back, …
                here = order.batch[row]
                if held[here] < 2:
                    break
                there = (here + (step // 2 if step % 2 else -(step // 2))) % batches
                if held[there] == 0 and _divide(here, there, order, found):
                    for place in places_of(there, order):
                        if order.labels[line, order.perm[place]] == label:
                            held[there] += 1
                            held[here] -= 1
        for row in rows:
            held[order.batch[row]] = 0


@compiled
def _divide(here: int, there: int, order: Order, found: Ints) -> bool:
    """Divide the rows of two batches anew, with few changes; False, and nothing done, where that parts no label."""
    first, second = places_of(here, order), places_of(there, order)
    rows = np.concatenate((order.perm[first.start : first.stop], order.perm[second.start : second.stop]))
    before = np.ones(len(rows), np.int64)
    before[: len(first)] = -1
    links = _links(rows, order.labels, found)
    side = _sides(before, links)
    parted = 0
    for i in range(len(rows)):
        for j in links[i]:
            parted += before[i] * before[j] - side[i] * side[j]
    if parted <= 0 or side.sum() != before.sum():
        return False
    moved, i = np.concatenate((rows[side < 0], rows[side > 0])), 0
    for batch in (here, there):
        for place in places_of(batch, order):
            order.perm[place], order.place[moved[i]], order.batch[moved[i]] = moved[i], place, batch
            i += 1
    return True


@compiled
def _links(rows: Ints, labels: Ints, found: Ints) -> Ints:
    """(n, G) of each line, for the first row with a label, the last one, and the other way; themselves for others."""
    links = np.empty((len(rows), len(labels)), np.int64)
    for line in range(len(labels)):
        for i in range(len(rows)):
            links[i, line] = i
            found[labels[line, rows[i]]] = i
        for i in range(len(rows)):
            last = found[labels[line, rows[i]]]
            if last > i:
                links[i, line], links[last, line] = last, i
            found[labels[line, rows[i]]] = -1
    return links


@compiled
def _sides(before: Ints, links: Ints) -> Ints:
    """(n,) 1 or −1: those `before`, with few changes so that linked rows differ and as many are 1, as far as that goes.

    Each path of links is coloured, turned over where that changes less, and turned back where the sizes ask for it.
    """
    count = len(before)
    side, path, queue, turn = before.copy(), np.full(count, -1), np.empty(count, np.int64), np.ones(count, np.int64)
    size, total, kept = np.zeros((3, count), np.int64)
    visited, stop = 0, 0
    for start in range(count):
        if path[start] >= 0:
            continue
        path[start], queue[stop] = start, start
        stop += 1
        while visited < stop:
            i = queue[visited]
            visited += 1
            size[start] += 1
            total[start] += side[i]
            kept[start] += side[i] * before[i]
            for j in links[i]:
                if path[j] < 0:
                    path[j], side[j], queue[stop] = start, -side[i], j
                    stop += 1
        if kept[start] < 0:
            turn[start] = -1
    surplus = (turn * total).sum() - before.sum()
    for longest in (1, count):
        for start in range(count):
            own = turn[start] * total[start]
            if size[start] <= longest and own * surplus > 0 and 2 * abs(own) <= abs(surplus):
                turn[start] *= -1
                surplus -= 2 * own
    return side * turn[path]
