"""Deal rows with one or two kinds of labels into batches anew, so that no batch holds a label twice.

Rows are edges between a label of the first kind and one of the second, and batches are colours: no two edges of a label
may have the same. A bipartite graph needs no more colours than its largest degree (König 1916): where the colours free
at both ends are used up, the edges of two colours change along a path. Along such paths the colours come out equally
large (Folkman and Fulkerson 1969). A short last batch is chosen before: it needs every label with a row for each batch.
"""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.system.arrays import inverse
from gcbs_cli.system.compiled import compiled


def deal_apart(perm: NDArray[np.int64], labels: NDArray[np.int64], batch_size: int) -> NDArray[np.int64] | None:
    """(N,) an order whose batches hold no label twice, rows of a batch as in `perm`; None where there is none.

    labels: (1 or 2, N) int64, −1 for none; no label may have more rows than there are batches.
    """
    full, short = divmod(len(perm), batch_size)
    ends, indptr, members = _bipartite(labels)
    batch, home = np.full(len(perm), -1), inverse(perm) // batch_size
    last = np.empty(0, np.int64)
    if short:
        chosen = _short_batch(ends, np.diff(indptr) > full, short)
        if chosen is None:
            return None
        last = chosen
    room = np.full(full, batch_size)
    _colour(perm[~np.isin(perm, last)], home, ends, indptr, members, batch, room)
    _even_out(ends, indptr, members, batch, room)
    batch[last] = full
    return perm[np.argsort(batch[perm], kind="stable")]


def _short_batch(ends: NDArray[np.int64], needed: NDArray[np.bool_], size: int) -> NDArray[np.int64] | None:
    """(size,) rows that differ at both ends and hold every needed label; None where there are none.

    A flow from labels to labels of exactly `size`, with a lower bound of 1 at needed labels: the least that must pass
    an edge leaves its end for a second sink, and enters at its other end from a second source.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_flow

    count = len(needed)
    source, sink, forced_source, forced_sink = range(count, count + 4)
    firsts, seconds = np.unique(ends[0]), np.unique(ends[1])
    into_firsts = np.where(needed[firsts], forced_source, source)
    out_of_seconds = np.where(needed[seconds], forced_sink, sink)
    tails = np.concatenate([ends[0], into_firsts, seconds, [source, forced_source, forced_source, sink]])
    heads = np.concatenate([ends[1], firsts, out_of_seconds, [forced_sink, sink, source, forced_sink]])
    capacities = np.ones(len(tails), np.int32)
    capacities[-4:] = needed[firsts].sum(), needed[seconds].sum(), size, size
    network = coo_array((capacities, (tails, heads)), shape=(count + 4, count + 4)).tocsr()
    found = maximum_flow(network, forced_source, forced_sink)
    if found.flow_value < needed.sum() + size:
        return None
    flow = found.flow.tocoo()
    used = (flow.data > 0) & (flow.row < count) & (flow.col < count)
    keys, rows = np.unique(ends[0] * count + ends[1], return_index=True)
    return rows[np.searchsorted(keys, flow.row[used].astype(np.int64) * count + flow.col[used])]


def _bipartite(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(2, N) the two ends of each row; (V + 1,) and (2N,) the rows at each end. A row without a label is alone."""
    alone = np.full(labels.shape[1], -1)
    ends = np.empty((2, labels.shape[1]), np.int64)
    for side, line in enumerate((labels[0], labels[1] if len(labels) > 1 else alone)):
        numbers = np.where(line >= 0, line, line.max(initial=0) + 1 + np.arange(len(line)))
        ends[side] = np.unique(numbers, return_inverse=True)[1].reshape(-1)
    ends[1] += ends[0].max() + 1
    indptr = np.concatenate([[0], np.cumsum(np.bincount(ends.reshape(-1)))])
    return ends, indptr, np.argsort(ends.reshape(-1), kind="stable") % labels.shape[1]


@compiled
def _colour(
    order: NDArray[np.int64],
    home: NDArray[np.int64],
    ends: NDArray[np.int64],
    indptr: NDArray[np.int64],
    members: NDArray[np.int64],
    batch: NDArray[np.int64],
    room: NDArray[np.int64],
) -> None:
    """Give each row a batch that no other row at its two ends has: its home, if it can."""
    taken = np.zeros(len(room), np.int64)  # by batch: bit 0 at the first end, bit 1 at the second
    for row in order:
        taken[:] = 0
        for side in range(2):
            for e in range(indptr[ends[side, row]], indptr[ends[side, row] + 1]):
                if batch[members[e]] >= 0:
                    taken[batch[members[e]]] |= 1 << side
        both = home[row]
        if both >= len(room) or room[both] <= 0 or taken[both] != 0:
            both = _roomiest(taken, 3, room)
        if both < 0:
            # Free at the first end, and made free at the second, where it is taken.
            both = _roomiest(taken, 1, room)
            _flip(ends[1, row], both, _roomiest(taken, 2, room), ends, indptr, members, batch, room)
        batch[row] = both
        room[both] -= 1


@compiled
def _roomiest(taken: NDArray[np.int64], mask: int, room: NDArray[np.int64]) -> int:
    best = -1
    for b in range(len(room)):
        if taken[b] & mask == 0 and (best < 0 or room[b] > room[best]):
            best = b
    return best


@compiled
def _at(
    end: int, wanted: int, but: int, indptr: NDArray[np.int64], members: NDArray[np.int64], batch: NDArray[np.int64]
) -> int:
    """The row at an end that is in a batch, `but` one left out; −1 for none."""
    for e in range(indptr[end], indptr[end + 1]):
        if batch[members[e]] == wanted and members[e] != but:
            return members[e]
    return -1


@compiled
def _flip(
    end: int,
    one: int,
    other: int,
    ends: NDArray[np.int64],
    indptr: NDArray[np.int64],
    members: NDArray[np.int64],
    batch: NDArray[np.int64],
    room: NDArray[np.int64],
) -> None:
    """Exchange two batches along the path of their rows that begins at an end with a row in the first of them."""
    row = _at(end, one, -1, indptr, members, batch)
    while row >= 0:
        batch[row] = other
        room[one] += 1
        room[other] -= 1
        end = ends[0, row] + ends[1, row] - end
        one, other = other, one
        row = _at(end, one, row, indptr, members, batch)


@compiled
def _even_out(
    ends: NDArray[np.int64],
    indptr: NDArray[np.int64],
    members: NDArray[np.int64],
    batch: NDArray[np.int64],
    room: NDArray[np.int64],
) -> None:
    """Move rows, along paths, from batches that hold too many into those that hold too few."""
    for full in range(len(room)):
        for row in range(len(batch)):
            if room[full] >= 0:
                break
            if batch[row] != full:
                continue
            for short in range(len(room)):
                if room[short] > 0 and batch[row] == full:
                    _move_along(row, full, short, ends, indptr, members, batch, room)


@compiled
def _move_along(
    row: int,
    full: int,
    short: int,
    ends: NDArray[np.int64],
    indptr: NDArray[np.int64],
    members: NDArray[np.int64],
    batch: NDArray[np.int64],
    room: NDArray[np.int64],
) -> None:
    """Exchange two batches along a path that begins with this row, if one more of its rows is in the first."""
    for side in range(2):
        end, one, other, last, surplus = ends[side, row], full, short, row, 0
        if _at(end, short, -1, indptr, members, batch) >= 0:
            continue
        following = row
        while following >= 0:
            last, surplus = following, surplus + (1 if one == full else -1)
            end = ends[0, last] + ends[1, last] - end
            one, other = other, one
            following = _at(end, one, last, indptr, members, batch)
        if surplus > 0:
            _flip(ends[side, row], full, short, ends, indptr, members, batch, room)
            return
