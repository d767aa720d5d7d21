"""The definitions once more, in float64 loops: what the tests hold gcbs against. Nothing here is taken from gcbs.

Losses are in nats. `similarity` is the (N, N) float64 matrix of s_ij; `perm`, k and tau as in the definitions.
"""

import math
from collections import deque
from fractions import Fraction
from itertools import combinations

import numpy as np


def similarity_matrix(x, y):
    """(N, M) float64 s_ij of float32 rows: exact products, added by halving d padded to a power of two."""
    width = 1 << max(0, x.shape[1] - 1).bit_length()
    left = np.zeros((len(x), width))
    right = np.zeros((len(y), width))
    left[:, : x.shape[1]], right[:, : y.shape[1]] = x, y
    out = np.empty((len(x), len(y)))
    for i, row in enumerate(left):
        work = right * row
        while work.shape[1] > 1:
            half = work.shape[1] // 2
            work = work[:, :half] + work[:, half:]
        out[i] = work[:, 0]
    return out


def quantile_of(values, quantile):
    """The least value with at least a share q of the values at or below it; q taken as the decimal that it shows."""
    ordered = np.sort(np.asarray(values).reshape(-1))
    rank = math.ceil(Fraction(repr(quantile)) * len(ordered))
    return float(ordered[max(rank, 1) - 1])


def off_diagonal(matrix, first=0):
    """(n,) the entries of some rows of a square matrix, from this one on, without those of positive pairs."""
    rows, cols = np.indices(np.shape(matrix))
    return np.asarray(matrix)[rows + first != cols]


def edges_above(similarity, threshold):
    """The set of (i, j), i < j, with s_ij > t or s_ji > t."""
    directed = np.argwhere(similarity > threshold).tolist()
    return {(min(i, j), max(i, j)) for i, j in directed if i != j}


def neighbours_of(nodes, edges):
    """A list of sorted neighbours for each node."""
    found = [set() for _ in range(nodes)]
    for i, j in edges:
        if i != j:
            found[i].add(j)
            found[j].add(i)
    return [sorted(near) for near in found]


def cuthill_mckee(neighbours, start_order=None):
    """One node after the other: each component from its least (degree, index), neighbours by (degree, index)."""
    nodes = range(len(neighbours))

    def key(node):
        return len(neighbours[node]), node

    order, placed = [], [False] * len(neighbours)
    for start in sorted(nodes, key=key) if start_order is None else start_order:
        if placed[start]:
            continue
        placed[start] = True
        queue = deque([start])
        while queue:
            node = queue.popleft()
            order.append(node)
            for other in sorted(neighbours[node], key=key):
                if not placed[other]:
                    placed[other] = True
                    queue.append(other)
    return np.array(order, np.int64)


def check_reverse_cuthill_mckee(perm, neighbours):
    """A plan is this order, but for rows without a neighbour, which may lie in each other's places."""
    expected = cuthill_mckee(neighbours)[::-1]
    connected = np.array([bool(neighbours[row]) for row in expected], bool)
    assert np.array_equal(perm[connected], expected[connected])
    assert np.array_equal(np.sort(perm[~connected]), np.sort(expected[~connected]))


def bandwidth_profile_share(edges, perm, batch_size):
    """Bandwidth, profile and in-batch edge share (None without an edge) of an order, edge by edge."""
    place = {int(row): position for position, row in enumerate(perm)}
    reach = dict.fromkeys(place.values(), 0)
    together = 0
    for i, j in edges:
        low, high = sorted((place[i], place[j]))
        reach[high] = max(reach[high], high - low)
        together += low // batch_size == high // batch_size
    return max(reach.values()), sum(reach.values()), together / len(edges) if edges else None


ROUNDING = 1e-5
"""Both bounds of suspicion lie lower by it, so that rounding does not part equal rows."""


def suspected_entries(similarity, threshold, margin):
    """(N, N) whether s_ij or s_ji is at least t, and at least margin · s_ii or margin · s_jj."""
    own = margin * np.diag(similarity)
    limits = np.maximum(threshold, np.minimum(own[:, None], own)) - ROUNDING
    return (np.maximum(similarity, similarity.T) >= limits) & ~np.eye(len(similarity), dtype=bool)


def suspected_pairs(similarity, threshold, margin, batches):
    """{(i, j)}, i < j: the suspected pairs that share a batch."""
    suspected = suspected_entries(similarity, threshold, margin)
    return {(min(i, j), max(i, j)) for batch in batches for i, j in combinations(batch.tolist(), 2) if suspected[i, j]}
