"""Batches within clusters of the data (Merrick, "Embedding and clustering your data", arctic-embed, 2024)."""

import numpy as np
from numpy.typing import NDArray

from peers.common import Order, Rows, batches_within

BATCHES_A_CLUSTER = 8
ROUNDS = 10


class KMeans:
    """A planner: spherical k-means of the queries, and every batch from one cluster."""

    def __init__(self, batch_size: int, batches: int = BATCHES_A_CLUSTER) -> None:
        self.batch_size, self.batches = batch_size, batches

    def __call__(self, x: Rows, y: Rows, seed: int) -> Order:
        """The order of one epoch."""
        draws = np.random.default_rng(seed)
        labels = cluster(x, max(1, len(x) // (self.batch_size * self.batches)), draws)
        return batches_within([np.flatnonzero(labels == one) for one in np.unique(labels)], self.batch_size, draws)


def cluster(rows: Rows, count: int, draws: np.random.Generator) -> NDArray[np.int64]:
    """(n,) the cluster of each unit row. Lloyd's rounds; a centre without rows goes to a random one."""
    centres = rows[draws.choice(len(rows), count, replace=False)]
    for _ in range(ROUNDS):
        labels = (rows @ centres.T).argmax(axis=1)
        sums = np.zeros_like(centres)
        np.add.at(sums, labels, rows)
        empty = np.flatnonzero(np.bincount(labels, minlength=count) == 0)
        sums[empty] = rows[draws.integers(len(rows), size=len(empty))]
        centres = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    return (rows @ centres.T).argmax(axis=1)
