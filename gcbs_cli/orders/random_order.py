"""A seeded random order: what every trainer has without a plan."""

import numpy as np

from gcbs_cli.system.arrays import Ints


def plan_random(rows: int, seed: int) -> Ints:
    """(N,) a uniformly random permutation, the same for the same seed."""
    return np.random.default_rng([seed, 0x5EED]).permutation(rows).astype(np.int64)
