"""Groups mixed into batches, batches shuffled and put in order of difficulty."""

import numpy as np
import pytest
from unit_data import exact_matrix, make_pair

from gcbs_cli.orders.batch_order import batch_losses, mix_groups, order_batches
from gcbs_cli.settings.plan import BatchOrderSettings, PlanSettings
from gcbs_cli.system.errors import BadInput


def test_groups_stay_whole_and_the_short_one_last() -> None:
    perm = np.random.default_rng(0).permutation(43)
    mixed = mix_groups(perm, 4, seed=1)
    assert sorted(map(tuple, mixed[:40].reshape(-1, 4))) == sorted(map(tuple, perm[:40].reshape(-1, 4)))
    assert mixed[40:].tolist() == perm[40:].tolist()
    assert not np.array_equal(mixed, perm)


def test_batch_losses_equal_a_loop() -> None:
    rows, size, tau = 35, 8, 0.2
    exact, perm = exact_matrix("related", rows), np.random.default_rng(0).permutation(rows)
    wanted = []
    for start in range(0, rows, size):
        part = exact[np.ix_(perm[start : start + size], perm[start : start + size])] / tau
        both = np.log(np.exp(part).sum(axis=1)) + np.log(np.exp(part).sum(axis=0))
        wanted.append((both / 2 - np.diag(part)).mean())
    assert batch_losses(perm, make_pair("related", rows), size, tau) == pytest.approx(np.array(wanted), rel=1e-5)


@pytest.mark.parametrize("curriculum", ["easy-first", "hard-first"])
def test_a_curriculum_sorts_full_batches(curriculum: str) -> None:
    pair, perm = make_pair("related", 100), np.random.default_rng(0).permutation(100)
    ordered = order_batches(perm, pair, 8, 0.1, BatchOrderSettings(curriculum=curriculum), 0)
    losses = batch_losses(ordered, pair, 8, 0.1)[:12]
    assert np.all(np.diff(losses) * (1 if curriculum == "easy-first" else -1) >= 0)
    assert ordered[96:].tolist() == perm[96:].tolist()


def test_shuffled_batches_are_the_same_batches() -> None:
    pair, perm = make_pair("related", 100), np.random.default_rng(0).permutation(100)
    shuffled = order_batches(perm, pair, 8, 0.1, BatchOrderSettings(shuffle=True), 3)
    assert sorted(map(tuple, shuffled[:96].reshape(-1, 8))) == sorted(map(tuple, perm[:96].reshape(-1, 8)))
    assert not np.array_equal(shuffled, perm)


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadInput, match="--group-size 5: expected a divisor of --batch-size 64"):
        PlanSettings(batch_order=BatchOrderSettings(group_size=5))
    with pytest.raises(BadInput, match="give one of them"):
        BatchOrderSettings(shuffle=True, curriculum="easy-first")
