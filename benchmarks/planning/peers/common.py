"""What the peers share: nearest rows, and batches from clusters of any size."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Order = NDArray[np.int64]
ROWS_AT_ONCE = 1024


def nearest(x: Rows, y: Rows, last: int, first: int = 0) -> Order:
    """(n, last - first): for each row of x the rows of y at these ranks, hardest first, its own answer left out."""
    found = []
    for start in range(0, len(x), ROWS_AT_ONCE):
        scores = x[start : start + ROWS_AT_ONCE] @ y.T
        own = np.arange(len(scores))
        scores[own, start + own] = -np.inf
        top = np.argpartition(-scores, last - 1, axis=1)[:, :last]
        by_rank = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1)
        found.append(np.take_along_axis(top, by_rank, axis=1)[:, first:])
    return np.concatenate(found)


def batches_within(clusters: Iterable[Order], batch_size: int, draws: np.random.Generator) -> Order:
    """Full batches of one cluster each, at random within it; what is left over of all makes the last ones."""
    full, left = [], []
    for cluster in clusters:
        order = draws.permutation(cluster)
        end = len(order) // batch_size * batch_size
        full.append(order[:end])
        left.append(order[end:])
    return np.concatenate([*full, draws.permutation(np.concatenate(left))])
