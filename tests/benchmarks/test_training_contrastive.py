import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from contrastive import reciprocal_rank, suspected_in_batch, symmetric_loss
from pair_data import split_rows
from plan_choices import hardest_negatives, read_choice
from views import views_loss

K, DIM, TEMPERATURE = 5, 3, 0.2


@pytest.fixture
def sides() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    draws = np.random.default_rng(0).normal(size=(2, K, DIM))
    unit = draws / np.linalg.norm(draws, axis=2, keepdims=True)
    return unit[0], unit[1]


def _loss_by_loops(x, y, keys_of_x, ignored: set[tuple[int, int]]) -> float:
    total = 0.0
    for i in range(len(x)):
        for own, keys in ((x[i], keys_of_x), (y[i], x)):
            kept = [j for j in range(len(keys)) if i == j or ((i, j) not in ignored and (j, i) not in ignored)]
            total += np.log(sum(np.exp(own @ keys[j] / TEMPERATURE) for j in kept)) - x[i] @ y[i] / TEMPERATURE
    return total / (2 * len(x))


@pytest.mark.parametrize("ignored", [set(), {(0, 1)}, {(2, 0), (3, 4), (1, 1)}], ids=["all", "one-pair", "three"])
def test_symmetric_loss_is_the_mean_over_both_directions(sides, ignored):
    x, y = sides
    mask = torch.tensor([[(i, j) in ignored for j in range(K)] for i in range(K)])
    found = symmetric_loss(torch.from_numpy(x), torch.from_numpy(y), TEMPERATURE, mask)
    assert float(found) == pytest.approx(_loss_by_loops(x, y, y, ignored), abs=1e-9)


def test_mined_negatives_count_for_queries_alone(sides):
    x, y = sides
    keys = np.concatenate([y, y[::-1]])
    found = symmetric_loss(torch.from_numpy(x), torch.from_numpy(keys), TEMPERATURE)
    assert float(found) == pytest.approx(_loss_by_loops(x, y, keys, set()), abs=1e-9)


def test_suspected_pairs_reach_margin_and_threshold():
    x = torch.eye(3)
    y = torch.tensor([[0.5, 0.49, 0.0], [0.0, 0.9, 0.0], [0.2, 0.0, 0.2]])
    found = suspected_in_batch(x, y, margin=0.95, threshold=0.3).nonzero().tolist()
    # 1→0 has 0.49 of row 0's 0.5; 0→2 has all of row 2's 0.2, below the threshold
    assert found == [[0, 0], [1, 0], [1, 1]]


def test_reciprocal_rank_counts_better_candidates_and_halves_ties():
    candidates = torch.tensor([[3.0], [2.0], [2.0], [1.0]])
    found = reciprocal_rank(torch.ones(4, 1), candidates, torch.tensor([0, 1, 2, 3]))
    assert found == pytest.approx((1 + 1 / 2.5 + 1 / 2.5 + 1 / 4) / 4)


def test_views_loss_meets_every_other_view(sides):
    views = np.concatenate(sides)
    total = 0.0
    for i in range(2 * K):
        others = [np.exp(views[i] @ views[j] / TEMPERATURE) for j in range(2 * K) if j != i]
        total += np.log(sum(others)) - views[i] @ views[(i + K) % (2 * K)] / TEMPERATURE
    x, y = (torch.from_numpy(side) for side in sides)
    assert float(views_loss(x, y, TEMPERATURE)) == pytest.approx(total / (2 * K), abs=1e-9)


def test_splits_share_the_test_queries_and_train_on_no_query():
    splits = [split_rows(100, 60, 15, seed) for seed in range(3)]
    for split in splits:
        assert len(split.train) == 60
        assert sorted([*split.train, *split.candidates]) == list(range(100))
        assert np.isin(split.validation, split.candidates).all()
        assert not np.isin(split.validation, split.test).any()
        assert np.array_equal(split.test, splits[0].test)
        assert np.isin(split.test, split.candidates).all()
    assert not np.array_equal(splits[0].train, splits[1].train)


def test_hardest_negatives_are_the_best_other_answers(sides):
    x, y = sides
    scores = x @ y.T
    expected = [max((j for j in range(K) if j != i), key=lambda j: scores[i, j]) for i in range(K)]
    assert hardest_negatives(x, y, rows_at_once=2).tolist() == expected


def test_choices_are_named_or_spelled_out():
    assert read_choice("rcm")[1].settings == {"method": "rcm"}
    name, choice = read_choice('mine={"method": "cm", "quantile": 0.99, "mask_margin": 0.9}')
    assert (name, choice.settings, choice.mask_margin) == ("mine", {"method": "cm", "quantile": 0.99}, 0.9)
    with pytest.raises(ValueError, match="rmc: expected one of random, rcm"):
        read_choice("rmc")
