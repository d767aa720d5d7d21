"""What happens to finished batches: groups mixed into batches, batches shuffled."""

import numpy as np
from numpy.typing import NDArray


def mix_groups(perm: NDArray[np.int64], group_size: int, seed: int) -> NDArray[np.int64]:
    """The same groups of `group_size` consecutive rows in random order, the short one last.

    Batches of several groups are hard within each group and random between them: group size 1 is a random order, and
    group size k leaves the plan as hard as it was.
    """
    return _reorder(perm, group_size, np.random.default_rng([seed, 0x6200]).permutation(len(perm) // group_size))


def shuffle_batches(perm: NDArray[np.int64], batch_size: int, seed: int) -> NDArray[np.int64]:
    """Full batches in random order, the short one last."""
    return _reorder(perm, batch_size, np.random.default_rng([seed, 0x5F1E]).permutation(len(perm) // batch_size))


def _reorder(perm: NDArray[np.int64], size: int, order: NDArray[np.int64]) -> NDArray[np.int64]:
    full = len(order) * size
    return np.concatenate([perm[:full].reshape(-1, size)[order].reshape(-1), perm[full:]])
