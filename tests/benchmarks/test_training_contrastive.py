import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from contrastive import reciprocal_rank
from pair_data import split_rows
from plan_choices import hardest_negatives, read_choice
from views import views_loss

K, DIM, TEMPERATURE = 5, 3, 0.2


@pytest.fixture
def sides() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    draws = np.random.default_rng(0).normal(size=(2, K, DIM))
    unit = draws / np.linalg.norm(draws, axis=2, keepdims=True)
    return unit[0], unit[1]


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
    name, choice = read_choice('mine={"method": "cm", "quantile": 0.99, "mined": true}')
    assert (name, choice.settings, choice.mined) == ("mine", {"method": "cm", "quantile": 0.99}, True)
    with pytest.raises(ValueError, match="rmc: expected one of random, rcm"):
        read_choice("rmc")
