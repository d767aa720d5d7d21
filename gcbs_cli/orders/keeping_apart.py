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
    if order.batch[u] == order.batch[v]:
        return False
    if order.labels.size == 0:
        return True
    return not (has_rival(u, order.batch[v], v, order) or has_rival(v, order.batch[u], u, order))


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
    conflicts_left = _separate_all(order, full + bool(short))
    if conflicts_left and short and len(labels) <= 2:
        # A short last batch must hold the labels that every batch holds: choose its rows first, then leave it alone.
        order = order_of(with_last_batch(perm, order.labels, full, short), labels, batch_size)
        conflicts_left = _separate_all(order, full)
    if conflicts_left:
        raise BadInput(
            f"--groups, --no-duplicates: {conflicts_left:,} rows could not be kept apart from their own group"
        )
    return order.perm


def conflicts(perm: Ints, labels: Ints, batch_size: int) -> int:
    """How many rows share a batch with an earlier row of the same label."""
    batch = np.arange(len(perm)) // batch_size
    count = 0
    for line in labels:
        label = line[perm]
        keys = batch[label >= 0] * (int(line.max()) + 1) + label[label >= 0]
        count += len(keys) - len(np.unique(keys))
    return count


def _separate_all(order: Order, batches: int) -> int:
    """Take rows of one label apart, within the first `batches` batches; returns the conflicts that are left.

    Of three kinds or more some may never part: the rounds end with one that leaves more than nine tenths.
    """
    kinds = [grouped(line, 2 * len(order.perm)) for line in order.labels]
    share = 1.0 if len(kinds) <= 2 else 0.9
    before = np.inf
    left = order.labels.size
    while 0 < left < share * before:
        for line, kind in enumerate(kinds):
            _separate(line, *kind, order, batches)
        before = left
        left = conflicts(order.perm, order.labels, order.batch_size)
    return left


@compiled
def _separate(line: int, members: Ints, starts: Ints, order: Order, batches: int) -> None:
    """Divide each batch that holds a label twice anew, with the nearest ones that lack it."""
    counts = np.zeros(1 + order.batch.max(), np.int64)  # rows of each batch with the label in hand
    last = np.full(len(starts), -1)
    for label in range(len(starts) - 1):
        rows = members[starts[label] : starts[label + 1]]
        for row in rows:
            counts[order.batch[row]] += 1
        for row in rows:
            for step in range(2, batches + 2):  # one back, one on, two back, …
                here = order.batch[row]
                if counts[here] < 2:
                    break
                distance = step // 2 if step % 2 else -(step // 2)
                there = (here + distance) % batches
                if counts[there] == 0 and _divide(here, there, order, last):
                    for place in places_of(there, order):
                        if order.labels[line, order.perm[place]] == label:
                            counts[there] += 1
                            counts[here] -= 1
        for row in rows:
            counts[order.batch[row]] = 0


@compiled
def _divide(here: int, there: int, order: Order, last: Ints) -> bool:
    """Divide the rows of two batches anew, with few changes; False, and nothing done, where that parts no label."""
    first = places_of(here, order)
    second = places_of(there, order)
    rows = np.concatenate((order.perm[first.start : first.stop], order.perm[second.start : second.stop]))
    before = np.ones(len(rows), np.int64)
    before[: len(first)] = -1
    links = _links(rows, order.labels, last)
    side, path = _colour_paths(before, links)
    side *= _turns(before, side, path)[path]
    parted = 0
    for i in range(len(rows)):
        for j in links[i]:
            parted += before[i] * before[j] - side[i] * side[j]
    if parted <= 0 or side.sum() != before.sum():
        return False
    divided = np.concatenate((rows[side < 0], rows[side > 0]))
    i = 0
    for batch in (here, there):
        for place in places_of(batch, order):
            row = divided[i]
            order.perm[place] = row
            order.place[row] = place
            order.batch[row] = batch
            i += 1
    return True


@compiled
def _links(rows: Ints, labels: Ints, last: Ints) -> Ints:
    """(n, G) of each line, for the first row with a label, the last one, and the other way; themselves for others.

    last: scratch of a place for each label, all −1 before and after.
    """
    links = np.empty((len(rows), len(labels)), np.int64)
    for line in range(len(labels)):
        for i in range(len(rows)):
            links[i, line] = i
            last[labels[line, rows[i]]] = i
        for i in range(len(rows)):
            j = last[labels[line, rows[i]]]
            if j > i:
                links[i, line] = j
                links[j, line] = i
            last[labels[line, rows[i]]] = -1
    return links


@compiled
def _colour_paths(before: Ints, links: Ints) -> tuple[Ints, Ints]:
    """(n,) sides 1 or −1 by which linked rows differ, and (n,) the first row of each row's path of links.

    The first row of a path keeps the side that it has `before`.
    """
    side = before.copy()
    path = np.full(len(before), -1)
    queue = np.empty(len(before), np.int64)
    visited = 0
    stop = 0
    for start in range(len(before)):
        if path[start] < 0:
            path[start] = start
            queue[stop] = start
            stop += 1
        while visited < stop:
            i = queue[visited]
            visited += 1
            for j in links[i]:
                if path[j] < 0:
                    path[j] = start
                    side[j] = -side[i]
                    queue[stop] = j
                    stop += 1
    return side, path


@compiled
def _turns(before: Ints, side: Ints, path: Ints) -> Ints:
    """(n,) for the first row of a path, −1 where the path is to be turned over, else 1.

    Paths are turned over where that changes less, and then, the short ones first, as long as one batch has too many.
    """
    count = len(before)
    size, total, agreement = np.zeros((3, count), np.int64)
    for i in range(count):
        size[path[i]] += 1
        total[path[i]] += side[i]
        agreement[path[i]] += side[i] * before[i]
    turn = np.where(agreement < 0, -1, 1)
    surplus = (turn * total).sum() - before.sum()
    for longest in (1, count):
        for start in range(count):
            own = turn[start] * total[start]
            if size[start] <= longest and own * surplus > 0 and 2 * abs(own) <= abs(surplus):
                turn[start] *= -1
                surplus -= 2 * own
    return turn
