"""Deal rows with one or two kinds of labels into batches anew, so that no batch holds a label twice.

Rows are edges between a label of the first kind and one of the second, and batches are colours: no two edges of a label
may have the same. A bipartite graph needs no more colours than its largest degree (König 1916): where the colours free
at both ends are used up, the edges of two colours change along a path. Along such paths the colours come out equally
large (Folkman and Fulkerson 1969). A short last batch is chosen before: it needs every label with a row for each batch.
"""

from typing import NamedTuple

import numpy as np

from gcbs_cli.graph.adjacency import entries_of
from gcbs_cli.products.suspects import group_numbers
from gcbs_cli.system.arrays import Bools, Ints, grouped, inverse
from gcbs_cli.system.compiled import compiled


class Dealing(NamedTuple):
    """Rows as edges, and where they are: `ends` (2, N), the labels of each row; `indptr` (V + 1,) and `members` (2N,),
    the rows of each label; `batch` (N,), −1 before a row is dealt; `room` (B,), how many more rows a batch takes.
    """

    ends: Ints
    indptr: Ints
    members: Ints
    batch: Ints
    room: Ints


def deal_apart(perm: Ints, labels: Ints, batch_size: int) -> Ints | None:
    """(N,) an order whose batches hold no label twice, rows of a batch as in `perm`; None where there is none.

    labels: (1 or 2, N) int64, −1 for none; no label may have more rows than there are batches.
    """
    full, short = divmod(len(perm), batch_size)
    ends = _ends(labels)
    places, indptr = grouped(ends.reshape(-1), int(ends.max()) + 1)
    last = _short_batch(ends, np.diff(indptr) > full, short) if short else np.empty(0, np.int64)
    if last is None:
        return None
    dealing = Dealing(ends, indptr, places % len(perm), np.full(len(perm), -1), np.full(full, batch_size))
    _deal(perm[~np.isin(perm, last)], inverse(perm) // batch_size, dealing)
    _even_out(dealing)
    dealing.batch[last] = full
    return perm[np.argsort(dealing.batch[perm], kind="stable")]


def _ends(labels: Ints) -> Ints:
    """(2, N) the two labels of each row, numbered together. A row without a label has one of its own."""
    lines = [*labels, np.arange(labels.shape[1])][:2]
    first, second = (np.unique(group_numbers(line), return_inverse=True)[1] for line in lines)
    return np.stack([first, second + first.max() + 1])


def _short_batch(ends: Ints, needed: Bools, size: int) -> Ints | None:
    """(size,) rows that differ at both ends and hold every needed label; None where there are none.

    A flow from labels to labels of exactly `size`, with a lower bound of 1 at needed labels: the least that must pass
    an edge leaves its end for a second sink, and enters at its other end from a second source.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    count = len(needed)
    source, sink, forced_source, forced_sink = range(count, count + 4)
    firsts, seconds = map(np.unique, ends)
    into_firsts = np.where(needed[firsts], forced_source, source)
    out_of_seconds = np.where(needed[seconds], forced_sink, sink)
    tails = np.concatenate([ends[0], into_firsts, seconds, [source, forced_source, forced_source, sink]])
    heads = np.concatenate([ends[1], firsts, out_of_seconds, [forced_sink, sink, source, forced_sink]])
    capacities = np.ones(len(tails), np.int32)
    capacities[-4:] = needed[firsts].sum(), needed[seconds].sum(), size, size
    edges = np.stack([tails, heads]).astype(np.int32)  # scipy 1.14's flow takes no other type
    network = csr_array((capacities, edges), shape=(count + 4, count + 4))
    found = maximum_flow(network, forced_source, forced_sink)
    if found.flow_value < needed.sum() + size:
        return None
    flow = found.flow.tocoo()
    used = (flow.data > 0) & (flow.row < count) & (flow.col < count)
    keys, rows = np.unique(ends[0] * count + ends[1], return_index=True)
    return rows[np.searchsorted(keys, flow.row[used].astype(np.int64) * count + flow.col[used])]


@compiled
def _deal(rows: Ints, home: Ints, dealing: Dealing) -> None:
    """Give each of the rows a batch that no other row of its two labels has: its home, if it can."""
    room = dealing.room
    taken = np.zeros(len(room), np.int64)  # by batch: bit 0 by the first label, bit 1 by the second
    for row in rows:
        chosen, first, second = home[row], dealing.ends[0, row], dealing.ends[1, row]
        free = chosen < len(room) and room[chosen] > 0
        if not free or _row_in(first, chosen, -1, dealing) >= 0 or _row_in(second, chosen, -1, dealing) >= 0:
            taken[:] = 0
            for side in range(2):
                end = dealing.ends[side, row]
                for e in entries_of(end, dealing.indptr):
                    if dealing.batch[dealing.members[e]] >= 0:
                        taken[dealing.batch[dealing.members[e]]] |= 1 << side
            chosen = _roomiest(taken, 3, room)
        if chosen < 0:
            chosen = _roomiest(taken, 1, room)  # free of the first label, and made free of the second
            _follow(second, chosen, _roomiest(taken, 2, room), True, dealing)
        dealing.batch[row] = chosen
        room[chosen] -= 1


@compiled
def _roomiest(taken: Ints, mask: int, room: Ints) -> int:
    best = -1
    for b in range(len(room)):
        if taken[b] & mask == 0 and (best < 0 or room[b] > room[best]):
            best = b
    return best


@compiled
def _row_in(end: int, batch: int, but: int, dealing: Dealing) -> int:
    """The row of a label in a batch, `but` one left out; −1 for none."""
    for e in entries_of(end, dealing.indptr):
        row = dealing.members[e]
        if dealing.batch[row] == batch and row != but:
            return row
    return -1


@compiled
def _follow(end: int, one: int, other: int, exchange: bool, dealing: Dealing) -> int:
    """Follow the path of rows in two batches in turn that begins at a label with its row in the first of them.

    Returns how many more of its rows are in the first. `exchange`: let each change its batch for the other.
    """
    surplus, sign, row = 0, 1, _row_in(end, one, -1, dealing)
    while row >= 0:
        if exchange:
            dealing.batch[row] = other
            dealing.room[one] += 1
            dealing.room[other] -= 1
        surplus, sign = surplus + sign, -sign
        end = dealing.ends[0, row] + dealing.ends[1, row] - end
        one, other = other, one
        row = _row_in(end, one, row, dealing)
    return surplus


@compiled
def _even_out(dealing: Dealing) -> None:
    """Exchange batches that hold too many rows with those that hold too few, along paths with one more of the first.

    There is such a path between any two batches of unequal size.
    """
    batch, room = dealing.batch, dealing.room
    while len(room) > 0 and room.min() < 0:
        for row in range(len(batch)):
            for side in range(2):
                end = dealing.ends[side, row]
                for short in range(len(room)):
                    full = batch[row]
                    if full < 0 or room[full] >= 0:
                        break
                    free = room[short] > 0 and _row_in(end, short, -1, dealing) < 0
                    if free and _follow(end, full, short, False, dealing) > 0:
                        _follow(end, full, short, True, dealing)
