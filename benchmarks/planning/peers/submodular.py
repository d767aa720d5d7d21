"""A submodular greedy after HOBIT (Dutta, Nagalapatti, Prabhu, ICML 2026).

Made from what its abstract says, for its code is not public: batches filled greedily, by an objective that is monotone
and submodular, with negatives that are hard but do not contradict the positive.
"""

import numpy as np

from peers.common import Order, Rows

POOL_BATCHES = 2
"""Rows among which a batch is chosen: this many batches' worth of the free rows nearest to its first."""


class Submodular:
    """A planner: each batch gains most in the sum over queries of log(1 + what its negatives add to the loss's sum)."""

    def __init__(self, batch_size: int, temperature: float) -> None:
        self.batch_size, self.temperature = batch_size, temperature

    def __call__(self, x: Rows, y: Rows, seed: int) -> Order:
        """The order of one epoch."""
        free, order = np.random.default_rng(seed).permutation(len(x)), []
        while len(free) > self.batch_size:
            scores = np.maximum(y[free] @ x[free[0]], x[free] @ y[free[0]])
            pool = np.argsort(-scores[1:], kind="stable")[: POOL_BATCHES * self.batch_size - 1] + 1
            pool = np.append(0, pool)
            chosen = pool[self._choose(x[free[pool]], y[free[pool]])]
            order.append(free[chosen])
            free = np.delete(free, chosen)
        return np.concatenate([*order, free])

    def _choose(self, x: Rows, y: Rows) -> Order:
        """(k,) places in the pool, the first among them."""
        scores = x @ y.T
        own = scores.diagonal()[:, None]
        adds = np.where(scores < own, np.exp((scores - own) / self.temperature), 0)
        adds += np.where(own > scores.T, np.exp((scores.T - own) / self.temperature), 0)
        np.fill_diagonal(adds, 0)
        covered, chosen = 1 + adds[:, 0], [0]
        while len(chosen) < self.batch_size:
            gains = np.log1p(adds / covered[:, None]).sum(axis=0)
            gains[chosen] = -np.inf
            chosen.append(int(gains.argmax()))
            covered += adds[:, chosen[-1]]
        return np.array(chosen)
