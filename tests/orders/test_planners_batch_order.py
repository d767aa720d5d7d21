"""Groups mixed into batches, batches shuffled."""

import numpy as np

from gcbs_cli.orders.finish import mix_groups, shuffle_batches


def test_groups_stay_whole_and_the_short_one_last() -> None:
    perm = np.random.default_rng(0).permutation(43)
    mixed = mix_groups(perm, 4, seed=1)
    assert sorted(map(tuple, mixed[:40].reshape(-1, 4))) == sorted(map(tuple, perm[:40].reshape(-1, 4)))
    assert mixed[40:].tolist() == perm[40:].tolist()
    assert not np.array_equal(mixed, perm)


def test_shuffled_batches_are_the_same_batches() -> None:
    perm = np.random.default_rng(0).permutation(100)
    shuffled = shuffle_batches(perm, 8, 3)
    assert sorted(map(tuple, shuffled[:96].reshape(-1, 8))) == sorted(map(tuple, perm[:96].reshape(-1, 8)))
    assert not np.array_equal(shuffled, perm)
