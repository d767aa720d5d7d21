"""Mined negatives: random batches, and each row brings its hardest negatives (GCBS's "Hard Negative (n)")."""

import numpy as np

from peers.common import Order, Rows, nearest


class Mined:
    """A planner that also gives each row `count` negatives, mined anew each epoch from all rows of y."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, x: Rows, y: Rows, seed: int) -> tuple[Order, Order]:
        """The order of one epoch, and (n, count) rows whose y is one more negative of each row."""
        return np.random.default_rng(seed).permutation(len(x)), nearest(x, y, self.count)
