"""Even-sized spectral clustering (Cho et al., "Mini-Batch Optimization of Contrastive Loss", 2023).

The graph joins two pairs by the loss of a batch of just these two, so that a cut of least weight keeps the loss inside
the batches. A dense graph of all rows is too large: as its authors do, each epoch parts random blocks of them.
"""

import numpy as np
from numpy.typing import NDArray

from peers.common import Order, Rows

BLOCK_BATCHES = 8
ROUNDS = 5


class Spectral:
    """A planner: random blocks of 8 batches, each parted evenly by its spectrum."""

    def __init__(self, batch_size: int, temperature: float) -> None:
        self.batch_size, self.temperature = batch_size, temperature

    def __call__(self, x: Rows, y: Rows, seed: int) -> Order:
        """The order of one epoch."""
        order = np.random.default_rng(seed).permutation(len(x))
        blocks = np.split(order, range(BLOCK_BATCHES * self.batch_size, len(x), BLOCK_BATCHES * self.batch_size))
        parted = [block[np.argsort(self._parts(x[block], y[block]), kind="stable")] for block in blocks]
        return np.concatenate(parted)

    def _parts(self, x: Rows, y: Rows) -> NDArray[np.int64]:
        """(n,) the batch of each row, in spectral coordinates by k-means whose clusters take a batch's rows each."""
        from scipy.linalg import eigh
        from scipy.optimize import linear_sum_assignment

        count, parts = len(x), -(-len(x) // self.batch_size)
        if parts == 1:
            return np.zeros(count, np.int64)
        scores = x @ y.T
        own = scores.diagonal()
        losses = [np.logaddexp(0, (side - own[:, None]) / self.temperature) for side in (scores, scores.T)]
        pair_loss = losses[0] + losses[1]
        weights = pair_loss + pair_loss.T
        np.fill_diagonal(weights, 0)
        scale = 1 / np.sqrt(weights.sum(axis=1))
        spectrum = eigh(weights * scale[:, None] * scale, subset_by_index=(count - parts, count - 1))[1]
        spectrum /= np.linalg.norm(spectrum, axis=1, keepdims=True)
        places = np.repeat(np.arange(parts), self.batch_size)[:count]
        labels = places
        for _ in range(ROUNDS):
            centres = np.stack([spectrum[labels == part].mean(axis=0) for part in range(parts)])
            rows, columns = linear_sum_assignment(-(spectrum @ centres.T)[:, places])
            labels = places[columns[np.argsort(rows)]]
        return labels
