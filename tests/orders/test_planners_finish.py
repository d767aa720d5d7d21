"""What follows the method: rows without a neighbour are dealt at random, groups shuffled."""

import numpy as np
import pytest
import reference
from unit_data import grid_matrix, make_pair

from gcbs_cli.orders.finish import shuffle_groups
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.settings.plan import PlanSettings

ROWS = 240
GRAPH = {"quantile": 0.99}


@pytest.mark.parametrize("method", ["rcm", "cm"])
def test_they_are_dealt_by_the_seed_and_all_others_stay(method):
    exact = grid_matrix("related", ROWS)
    near = reference.neighbours_of(ROWS, reference.edges_above(exact, reference.quantile_of(exact, 0.99)))
    order = np.array(reference.cuthill_mckee(near))[:: -1 if method == "rcm" else 1]
    alone = np.array([not near[row] for row in order])
    assert 20 < alone.sum() < ROWS - 20
    plans = [
        make_plan(make_pair("related", ROWS), PlanSettings(batch_size=16, **GRAPH, method=method, seed=s)).perm
        for s in (0, 0, 1)
    ]
    for perm in plans:
        assert np.array_equal(perm[~alone], order[~alone])
        assert np.array_equal(np.sort(perm[alone]), np.sort(order[alone]))
        assert not np.array_equal(np.sort(perm[alone])[::-1], perm[alone])
    assert np.array_equal(plans[0], plans[1])
    assert not np.array_equal(plans[0], plans[2])


@pytest.mark.parametrize("size", [4, 8])
def test_shuffled_groups_are_the_same_groups_the_short_one_last(size: int) -> None:
    perm = np.random.default_rng(0).permutation(43)
    mixed = shuffle_groups(perm, size, seed=1)
    assert sorted(map(tuple, mixed[:40].reshape(-1, size))) == sorted(map(tuple, perm[:40].reshape(-1, size)))
    assert mixed[40:].tolist() == perm[40:].tolist()
    assert not np.array_equal(mixed, perm)
