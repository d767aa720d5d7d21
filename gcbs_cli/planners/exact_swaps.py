"""Local search by swaps on the loss itself: every swap made lowers it, by the amount that is computed.

Row i sees log(1 + Σ share_ij) over its batch, in each direction; a second hard negative adds less than the first. A row
u tries the rows of its best few batches by what both would gain if the other's place were empty; the best of each batch
is then evaluated exactly, in time linear in the degrees of the two.
"""

from math import log

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.compiled import compiled
from gcbs_cli.planners.keeping_apart import rival
from gcbs_cli.planners.swap_targets import may_leave, next_target

LEAST_GAIN = 1e-6


@compiled
def exact_objective(
    batch: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    shares: NDArray[np.float32],
    penalties: NDArray[np.float32],
    sums: NDArray[np.float64],
) -> float:
    """Σ over rows of log(1 + Σ shares), x→y and y→x, less the penalties inside batches; fills `sums` (N, 2)."""
    total = 0.0
    for row in range(len(batch)):
        x, y, cost = 0.0, 0.0, 0.0
        for e in range(indptr[row], indptr[row + 1]):
            if batch[indices[e]] == batch[row]:
                x += shares[e, 0]
                y += shares[e, 1]
                cost += penalties[e]
        sums[row, 0], sums[row, 1] = x, y
        total += log(1.0 + x) + log(1.0 + y) - cost / 2.0
    return total


@compiled
def worth_of_staying(
    u: int,
    batch: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    shares: NDArray[np.float32],
    penalties: NDArray[np.float32],
    sums: NDArray[np.float64],
) -> float:
    """What the objective loses when u leaves its place empty."""
    worth = log(1.0 + sums[u, 0]) + log(1.0 + sums[u, 1])
    for e in range(indptr[u], indptr[u + 1]):
        i = indices[e]
        if batch[i] == batch[u]:
            x, y = 1.0 + sums[i, 0], 1.0 + sums[i, 1]
            worth += log(x * y / ((x - shares[e, 2]) * (y - shares[e, 3]))) - penalties[e]
    return worth


@compiled
def fill_worth_of_staying(
    batch: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    shares: NDArray[np.float32],
    penalties: NDArray[np.float32],
    sums: NDArray[np.float64],
    own: NDArray[np.float64],
) -> None:
    """The same for all rows, into `own` (N,)."""
    for row in range(len(batch)):
        own[row] = worth_of_staying(row, batch, indptr, indices, shares, penalties, sums)


@compiled
def gain_of_swap(
    u: int,
    v: int,
    batch: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    shares: NDArray[np.float32],
    penalties: NDArray[np.float32],
    sums: NDArray[np.float64],
    entry: NDArray[np.int64],
) -> float:
    """By how much the objective rises when u and v change places. `entry`: (N,) of −1 to work in."""
    gain = -log(1.0 + sums[u, 0]) - log(1.0 + sums[u, 1]) - log(1.0 + sums[v, 0]) - log(1.0 + sums[v, 1])
    for one, other in ((u, v), (v, u)):
        here, there = batch[one], batch[other]
        for e in range(indptr[other], indptr[other + 1]):
            entry[indices[e]] = e
        x, y = 0.0, 0.0
        for e in range(indptr[one], indptr[one + 1]):
            i, f = indices[e], entry[indices[e]]
            if i == other or (batch[i] != here and batch[i] != there):
                continue
            sign = -1.0 if batch[i] == here else 1.0
            gain -= sign * penalties[e]
            if sign > 0.0:
                x += shares[e, 0]
                y += shares[e, 1]
            # Neighbours of both are counted once, with what they lose and what they gain.
            if f >= 0 and one == v:
                continue
            to_x, to_y = sign * shares[e, 2], sign * shares[e, 3]
            if f >= 0:
                to_x -= sign * shares[f, 2]
                to_y -= sign * shares[f, 3]
            gain += log((1.0 + to_x / (1.0 + sums[i, 0])) * (1.0 + to_y / (1.0 + sums[i, 1])))
        gain += log(1.0 + x) + log(1.0 + y)
        for e in range(indptr[other], indptr[other + 1]):
            entry[indices[e]] = -1
    return gain


@compiled
def exact_swaps(
    perm: NDArray[np.int64],
    place: NDArray[np.int64],
    batch: NDArray[np.int64],
    sums: NDArray[np.float64],
    own: NDArray[np.float64],
    batch_size: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    shares: NDArray[np.float32],
    penalties: NDArray[np.float32],
    labels: NDArray[np.int64],
    visits: NDArray[np.int64],
    targets: int,
    joins: NDArray[np.float64],
    entry: NDArray[np.int64],
) -> tuple[int, float]:
    """Visit batches in the order given and make the swaps that gain; returns their number and what they gained.

    Changes perm, place, batch (N,), sums (N, 2) and own (N,), what each row's staying is worth, which belong together.
    joins: (N, 3) zeros, entry: (N,) of −1, to work in.
    """
    rows = len(perm)
    batches = (rows + batch_size - 1) // batch_size
    joined = np.zeros(batches)
    added = np.zeros((batches, 2))
    seen = np.zeros(batches, np.bool_)
    around = np.empty(batches, np.int64)
    swaps, total = 0, 0.0
    for here in visits:
        first, stop = here * batch_size, min(rows, (here + 1) * batch_size)
        _fill_joins(first, stop, perm, indptr, indices, shares, penalties, sums, joins)
        for p in range(first, stop):
            own[perm[p]] = worth_of_staying(perm[p], batch, indptr, indices, shares, penalties, sums)
        for p in range(first, stop):
            u = perm[p]
            count = 0
            for e in range(indptr[u], indptr[u + 1]):
                i, there = indices[e], batch[indices[e]]
                if there == here:
                    continue
                if not seen[there]:
                    seen[there] = True
                    around[count] = there
                    joined[there] = 0.0
                    added[there] = 0.0
                    count += 1
                x, y = 1.0 + sums[i, 0], 1.0 + sums[i, 1]
                joined[there] += log((1.0 + shares[e, 2] / x) * (1.0 + shares[e, 3] / y)) - penalties[e]
                added[there, 0] += shares[e, 0]
                added[there, 1] += shares[e, 1]
            for q in range(count):
                there = around[q]
                seen[there] = False
                joined[there] += log((1.0 + added[there, 0]) * (1.0 + added[there, 1]))
            for t in range(min(targets, count)):
                there = next_target(around, joined, t, count)
                there_first, there_stop = there * batch_size, min(rows, (there + 1) * batch_size)
                must = -1
                if labels.size:
                    must = rival(u, there_first, there_stop, -1, perm, labels)
                    if must == -2:
                        continue
                best, v = -np.inf, -1
                for q in range(there_first, there_stop):
                    w = perm[q]
                    value = joins[w, 0] - own[w]
                    if joins[w, 1] != 0.0 or joins[w, 2] != 0.0:
                        value += log((1.0 + joins[w, 1]) * (1.0 + joins[w, 2]))
                    if value > best:
                        if labels.size and not may_leave(w, q, must, first, stop, u, perm, labels):
                            continue
                        best, v = value, w
                if v < 0 or joined[there] - own[u] + best <= 0.0:
                    continue
                gain = gain_of_swap(u, v, batch, indptr, indices, shares, penalties, sums, entry)
                if gain <= LEAST_GAIN:
                    continue
                _swap(u, v, perm, place, batch, indptr, indices, shares, sums)
                _clear_joins(first, stop, perm, indptr, indices, u, joins)
                _fill_joins(first, stop, perm, indptr, indices, shares, penalties, sums, joins)
                for one in (u, v):
                    own[one] = worth_of_staying(one, batch, indptr, indices, shares, penalties, sums)
                    for e in range(indptr[one], indptr[one + 1]):
                        i = indices[e]
                        if batch[i] == here or batch[i] == there:
                            own[i] = worth_of_staying(i, batch, indptr, indices, shares, penalties, sums)
                swaps += 1
                total += gain
                break
        _clear_joins(first, stop, perm, indptr, indices, perm[first], joins)
    return swaps, total


@compiled
def _fill_joins(
    first: int,
    stop: int,
    perm: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    shares: NDArray[np.float32],
    penalties: NDArray[np.float32],
    sums: NDArray[np.float64],
    joins: NDArray[np.float64],
) -> None:
    """joins[v]: what the rows of a batch gain if v joins them, and what they would add to its two sums."""
    for p in range(first, stop):
        i = perm[p]
        x, y = 1.0 + sums[i, 0], 1.0 + sums[i, 1]
        for e in range(indptr[i], indptr[i + 1]):
            v = indices[e]
            joins[v, 0] += log((1.0 + shares[e, 0] / x) * (1.0 + shares[e, 1] / y)) - penalties[e]
            joins[v, 1] += shares[e, 2]
            joins[v, 2] += shares[e, 3]


@compiled
def _clear_joins(
    first: int,
    stop: int,
    perm: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    gone: int,
    joins: NDArray[np.float64],
) -> None:
    for p in range(first, stop):
        for e in range(indptr[perm[p]], indptr[perm[p] + 1]):
            joins[indices[e]] = 0.0
    for e in range(indptr[gone], indptr[gone + 1]):
        joins[indices[e]] = 0.0


@compiled
def _swap(
    u: int,
    v: int,
    perm: NDArray[np.int64],
    place: NDArray[np.int64],
    batch: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    shares: NDArray[np.float32],
    sums: NDArray[np.float64],
) -> None:
    """Let u and v change places, and the sums follow."""
    here, there = batch[u], batch[v]
    batch[u], batch[v] = there, here
    for one, left, joined in ((u, here, there), (v, there, here)):
        x, y = 0.0, 0.0
        for e in range(indptr[one], indptr[one + 1]):
            i = indices[e]
            if i in (u, v):
                continue
            if batch[i] == joined:
                x += shares[e, 0]
                y += shares[e, 1]
                sums[i, 0] += shares[e, 2]
                sums[i, 1] += shares[e, 3]
            elif batch[i] == left:
                # Never below what rounding leaves: a sum of shares is not negative.
                sums[i, 0] = max(0.0, sums[i, 0] - shares[e, 2])
                sums[i, 1] = max(0.0, sums[i, 1] - shares[e, 3])
        sums[one, 0], sums[one, 1] = x, y
    perm[place[u]], perm[place[v]] = v, u
    place[u], place[v] = place[v], place[u]
