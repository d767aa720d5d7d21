"""Local search by swaps for pairs whose worths add up: fast, and free to go uphill.

Kernighan and Lin, An efficient heuristic procedure for partitioning graphs (1970), for many parts of fixed size: the
gain of a swap of u in A and v in B is W(u, B) − W(u, A) + W(v, A) − W(v, B) − 2 w(u, v). One batch A is in hand at a
time; W(·, A) is kept for all rows, so that a row u tries all rows of its best few batches for a memory access each.
Swaps that lose are accepted as in simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983), so that worths that are
shared out badly at the start can be shared out again.
"""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.compiled import compiled
from gcbs_cli.planners.keeping_apart import rival
from gcbs_cli.planners.swap_targets import may_leave, next_target

LEAST_GAIN = 1e-6
"""A swap must gain so much, in nats: less may be rounding, and could be swapped back and forth."""


@compiled
def linear_objective(
    batch: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    worth: NDArray[np.float32],
    own: NDArray[np.float64],
) -> float:
    """Σ worth over pairs that share a batch; fills `own` (N,) with each row's part."""
    total = 0.0
    for row in range(len(batch)):
        own[row] = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            if batch[indices[entry]] == batch[row]:
                own[row] += worth[entry]
        total += own[row]
    return total / 2.0


@compiled
def linear_swaps(
    perm: NDArray[np.int64],
    place: NDArray[np.int64],
    batch: NDArray[np.int64],
    own: NDArray[np.float64],
    batch_size: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    worth: NDArray[np.float32],
    labels: NDArray[np.int64],
    visits: NDArray[np.int64],
    targets: int,
    temperature: float,
    draws: NDArray[np.float64],
    first_draw: int,
    to_batch: NDArray[np.float64],
    near: NDArray[np.float64],
) -> int:
    """Visit batches in the order given and swap their rows for better ones; returns the number of swaps.

    Changes perm (N,), place, batch and own, which belong together. `targets`: batches tried for each row, those with
    most worth to it; `temperature`: nats, 0 for gains only; `draws`: exponential random numbers, used in turn;
    to_batch, near: (N,) zeros to work in, zeros again afterwards.
    """
    rows = len(perm)
    batches = (rows + batch_size - 1) // batch_size
    joined = np.zeros(batches)
    seen = np.zeros(batches, np.bool_)
    around = np.empty(batches, np.int64)
    gone = np.empty(batch_size, np.int64)
    swaps, draw = 0, first_draw
    for here in visits:
        swapped = 0
        first, stop = here * batch_size, min(rows, (here + 1) * batch_size)
        for p in range(first, stop):
            for e in range(indptr[perm[p]], indptr[perm[p] + 1]):
                to_batch[indices[e]] += worth[e]
        for p in range(first, stop):
            u = perm[p]
            count = 0
            for e in range(indptr[u], indptr[u + 1]):
                near[indices[e]] = worth[e]
                there = batch[indices[e]]
                if there != here:
                    if not seen[there]:
                        seen[there] = True
                        around[count] = there
                        joined[there] = 0.0
                        count += 1
                    joined[there] += worth[e]
            for q in range(count):
                seen[around[q]] = False
            partner = -1
            for t in range(min(targets, count)):
                there = next_target(around, joined, t, count)
                there_first, there_stop = there * batch_size, min(rows, (there + 1) * batch_size)
                must = -1
                if labels.size:
                    must = rival(u, there_first, there_stop, -1, perm, labels)
                    if must == -2:
                        continue
                best, found = -np.inf, -1
                for q in range(there_first, there_stop):
                    v = perm[q]
                    value = to_batch[v] - own[v] - 2.0 * near[v]
                    if value > best:
                        if labels.size and not may_leave(v, q, must, first, stop, u, perm, labels):
                            continue
                        best, found = value, v
                draw = (draw + 1) % len(draws)
                gain = joined[there] - own[u] + best
                if found >= 0 and (gain > LEAST_GAIN or gain > -temperature * draws[draw]):
                    partner = found
                    break
            for e in range(indptr[u], indptr[u + 1]):
                near[indices[e]] = 0.0
            if partner < 0:
                continue
            _swap(u, partner, perm, place, batch, own, indptr, indices, worth, to_batch)
            gone[swapped] = u
            swapped += 1
        for p in range(first, stop):
            for e in range(indptr[perm[p]], indptr[perm[p] + 1]):
                to_batch[indices[e]] = 0.0
        for q in range(swapped):
            for e in range(indptr[gone[q]], indptr[gone[q] + 1]):
                to_batch[indices[e]] = 0.0
        swaps += swapped
    return swaps


@compiled
def _swap(
    u: int,
    v: int,
    perm: NDArray[np.int64],
    place: NDArray[np.int64],
    batch: NDArray[np.int64],
    own: NDArray[np.float64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    worth: NDArray[np.float32],
    to_batch: NDArray[np.float64],
) -> None:
    """Let u and v change places, and all sums follow; `to_batch` is that of the batch of u."""
    here, there = batch[u], batch[v]
    batch[u], batch[v] = there, here
    own_u, own_v = 0.0, 0.0
    for e in range(indptr[u], indptr[u + 1]):
        i = indices[e]
        to_batch[i] -= worth[e]
        if batch[i] == there:
            own_u += worth[e]
            own[i] += worth[e]
        elif batch[i] == here:
            own[i] -= worth[e]
    for e in range(indptr[v], indptr[v + 1]):
        i = indices[e]
        to_batch[i] += worth[e]
        if batch[i] == here:
            own_v += worth[e]
            own[i] += worth[e]
        elif batch[i] == there:
            own[i] -= worth[e]
    own[u], own[v] = own_u, own_v
    perm[place[u]], perm[place[v]] = v, u
    place[u], place[v] = place[v], place[u]
