"""BatchSampler (Yang et al., KDD 2023): batches by random walks with restart on a proximity graph.

Each row is joined to the nearest of some random others: the fewer are drawn, the less hard. Its batches are drawn
independently and may share rows; an epoch of each row once needs one change: a walk passes over rows already taken.
"""

import random

import numpy as np

from peers.common import Order, Rows

CANDIDATES, NEIGHBOURS = 1000, 100
RESTART = 0.2
STALLED = 200
"""Steps without a new row, after which the walk begins anew at a row not yet taken."""


class Proximity:
    """A planner: a new graph and new walks each epoch."""

    def __init__(self, batch_size: int, candidates: int = CANDIDATES, neighbours: int = NEIGHBOURS) -> None:
        self.batch_size, self.candidates, self.neighbours = batch_size, candidates, neighbours

    def __call__(self, x: Rows, y: Rows, seed: int) -> Order:
        """The order of one epoch."""
        count, draws, walk = len(x), np.random.default_rng(seed), random.Random(seed)
        candidates = draws.integers(count, size=(count, self.candidates))
        near = np.empty((count, self.neighbours), np.int64)
        for row in range(count):
            scores = y[candidates[row]] @ x[row]
            scores[candidates[row] == row] = -np.inf
            near[row] = candidates[row][np.argpartition(-scores, self.neighbours - 1)[: self.neighbours]]
        lists, starts, taken = near.tolist(), iter(draws.permutation(count).tolist()), [False] * count
        order: list[int] = []
        while len(order) < count:
            start = next(row for row in starts if not taken[row])
            here, idle = start, 0
            while True:
                if not taken[here]:
                    taken[here], idle = True, 0
                    order.append(here)
                    if len(order) % self.batch_size == 0:
                        break
                elif idle == STALLED:
                    break
                idle += 1
                here = start if walk.random() < RESTART else walk.choice(lists[here])
        return np.asarray(order, np.int64)
