"""The definitions once more, in float64 loops: what the tests hold gcbs against. Nothing here is taken from gcbs.

Losses are in nats. `similarity` is the (N, N) float64 matrix of s_ij; `perm`, k and tau as in the definitions.
"""

import math
from collections import deque
from fractions import Fraction
from itertools import combinations, permutations

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


def log_sum_exp(values):
    """log Σ e^v of at least one finite value."""
    largest = max(values)
    return largest + math.log(math.fsum(math.exp(v - largest) for v in values))


def suspected_pairs(similarity, threshold, margin):
    """{(i, j)}, i < j: s_ij or s_ji at least t, and at least margin · s_ii or margin · s_jj."""
    found = set()
    for i, j in combinations(range(len(similarity)), 2):
        limit = min(margin * similarity[i, i], margin * similarity[j, j])
        if max(similarity[i, j], similarity[j, i]) >= max(threshold, limit):
            found.add((i, j))
    return found


class Losses:
    """All figures of one loss over one order, row by row.

    kind: infonce, symmetric, simclr, moco or xbm (with `queue` batches; `both_ways` for xbm of the symmetric loss);
    symmetric-top-4 counts four of the negatives that training shows a row, the hardest.
    """

    def __init__(self, x, y, kind, tau, *, queue=0, both_ways=True, suspects=()):
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        across = x @ y.T
        self.sides = [(across, x @ x.T), (across.T, y @ y.T)]
        if kind in ("infonce", "moco") or not both_ways:
            self.sides = self.sides[:1]
        self.kind, _, top = kind.partition("-top-")
        self.top, self.tau, self.queue, self.rows = int(top or 2 * len(x)), tau, queue, len(x)
        self.hidden = {(i, j) for pair in suspects for i, j in (pair, pair[::-1])}

    def everything(self, side, i, *, masked=False):
        """Similarities of row i to all keys, its positive first."""
        return self._keys(side, i, range(self.rows), range(self.rows), masked)

    def batch(self, side, perm, batch_size, position, *, masked=False):
        """Similarities of the row at a position to the keys that its loss sees, its positive first."""
        number = position // batch_size
        own = [int(j) for j in perm[number * batch_size : (number + 1) * batch_size]]
        older = [int(j) for j in perm[max(0, number - self.queue) * batch_size : number * batch_size]]
        others = {"moco": older, "xbm": own + older}.get(self.kind, own)
        positive, *negatives = self._keys(side, int(perm[position]), others, own, masked)
        return [positive, *sorted(negatives, reverse=True)[: self.top]]

    def _keys(self, side, i, across, same_side, masked):
        other, own = self.sides[side]

        def seen(keys):
            return [j for j in keys if j != i and not (masked and (i, j) in self.hidden)]

        values = [other[i, i]] + [other[i, j] for j in seen(across)]
        if self.kind == "simclr":
            values += [own[i, j] for j in seen(same_side)]
        return values

    def figures(self, perm, batch_size, *, drop_last=False):
        """Means over the counted rows and the directions."""
        count = self.rows - self.rows % batch_size if drop_last else self.rows
        tau, found = self.tau, []
        for side in range(len(self.sides)):
            for position in range(count):
                i = int(perm[position])
                total, seen = self.everything(side, i), self.batch(side, perm, batch_size, position)
                masked_total = self.everything(side, i, masked=True)
                masked_seen = self.batch(side, perm, batch_size, position, masked=True)
                log_total, log_seen, *log_masked = (
                    log_sum_exp([v / tau for v in values]) for values in (total, seen, masked_total, masked_seen)
                )
                found.append(
                    {
                        "global": log_total - total[0] / tau,
                        "train": log_seen - total[0] / tau,
                        "gap": log_total - log_seen,
                        "information": math.log(len(seen)) - (log_seen - total[0] / tau),
                        "masked_gap": log_masked[0] - log_masked[1],
                        "translation": (max(total) - min(seen)) / tau + math.log(len(total) / len(seen)),
                        "least": min(seen),
                        "largest": max(seen),
                        "logsumexp": (max(total) - max(seen)) / tau + math.log(len(total)),
                        "probability": math.exp(total[0] / tau - log_seen),
                        "global_probability": math.exp(total[0] / tau - log_total),
                    }
                )
        means = {name: math.fsum(row[name] for row in found) / len(found) for name in found[0]}
        return means | self.seen_by_x(perm, batch_size, count)

    def seen_by_x(self, perm, batch_size, count):
        """Accuracy of the first `count` rows of the order among all keys and those they see, and mean similarities.

        A positive that ties, as float32 tells, counts as right. Negatives are the other rows of y in the batch, or all.
        """
        across, right, batch = self.sides[0][0], {"accuracy": 0, "global_accuracy": 0}, []
        for position, i in enumerate(perm[:count].tolist()):
            start = position - position % batch_size
            batch += [across[i, j] for j in perm[start : min(start + batch_size, count)].tolist() if j != i]
            for name, keys in (
                ("accuracy", self.batch(0, perm, batch_size, position)),
                ("global_accuracy", self.everything(0, i)),
            ):
                right[name] += max(keys) <= keys[0] + 2.0**-22
        others = [across[i, j] for i in perm[:count] for j in range(self.rows) if j != i]
        return {name: number / count for name, number in right.items()} | {
            "positive": math.fsum(across[i, i] for i in perm[:count]) / count,
            "negative": math.fsum(batch) / len(batch) if batch else None,
            "global_negative": math.fsum(others) / len(others),
        }

    def oracle_gap(self, batch_size, rows=None):
        """Each row sees its positive and as many of its hardest negatives as a full batch (and queue) shows it.

        rows: those that are counted, all by default.
        """
        negatives = {
            "simclr": 2 * batch_size - 2,
            "moco": self.queue * batch_size,
            "xbm": (1 + self.queue) * batch_size - 1,
        }.get(self.kind, batch_size - 1)
        gaps = []
        for side in range(len(self.sides)):
            for i in range(self.rows) if rows is None else rows:
                values = [v / self.tau for v in self.everything(side, i)]
                best = values[:1] + sorted(values[1:], reverse=True)[: min(negatives, self.top)]
                gaps.append(log_sum_exp(values) - log_sum_exp(best))
        return math.fsum(gaps) / len(gaps)


def bsc_loss(similarity, labels, threshold, tau, mu=1.0):
    """The loss of a batch of m pairs by equations 5 and 6, but with the mean of both directions in place of the sum."""
    m, softmax = len(labels), 0.0
    for side in (similarity, similarity.T):
        for i in range(m):
            if labels[i] > threshold:
                softmax += (log_sum_exp([s / tau for s in side[i]]) - side[i, i] / tau) / (2 * m)
    return mu * softmax + (1 - mu) * math.fsum((similarity[i, i] - labels[i]) ** 2 for i in range(m)) / m


def by_coordinates(rows, how):
    """A batch's rows, each coordinate normalised over them (BSC, section 3.5)."""
    rows = np.asarray(rows, np.float64)
    if how == "l2":
        return rows / np.sqrt((rows**2).sum(axis=0))
    return (rows - (rows.min(axis=0) if how == "min-max" else 0)) / (rows.max(axis=0) - rows.min(axis=0))


def alignment(x, y):
    """Mean ‖x_i − y_i‖²."""
    return math.fsum(float(((a - b) ** 2).sum()) for a, b in zip(np.float64(x), np.float64(y), strict=True)) / len(x)


def uniformity(side):
    """log mean exp(−2 ‖u_i − u_j‖²) over i ≠ j."""
    powers = [math.exp(-2 * float(((a - b) ** 2).sum())) for a, b in permutations(np.float64(side), 2)]
    return math.log(math.fsum(powers) / len(powers))
