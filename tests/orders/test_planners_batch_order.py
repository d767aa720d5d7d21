"""Groups mixed into batches, batches shuffled."""

import numpy as np
import pytest

from gcbs_cli.orders.finish import shuffle_groups


@pytest.mark.parametrize("size", [4, 8])
def test_shuffled_groups_are_the_same_groups_the_short_one_last(size: int) -> None:
    perm = np.random.default_rng(0).permutation(43)
    mixed = shuffle_groups(perm, size, seed=1)
    assert sorted(map(tuple, mixed[:40].reshape(-1, size))) == sorted(map(tuple, perm[:40].reshape(-1, size)))
    assert mixed[40:].tolist() == perm[40:].tolist()
    assert not np.array_equal(mixed, perm)
