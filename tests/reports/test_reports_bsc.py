"""Equations 5 and 6 and the coordinates of the batch-softmax paper, against loops in float64."""

import numpy as np
import pytest
import reference
from unit_data import exact_matrix, make_pair

from gcbs_cli.api import report
from gcbs_cli.system.errors import BadInput

SIZE, TAU = 8, 0.1


def test_no_positive_at_all_is_refused():
    pair = make_pair("related", 70)
    with pytest.raises(BadInput, match="no row is a positive pair"):
        report(pair.x, pair.y, labels=np.zeros(70), batch_size=SIZE)


@pytest.mark.parametrize("threshold", [None, 0.2, 0.8])
@pytest.mark.parametrize("mu", [None, 0.1, 0.9])
@pytest.mark.parametrize("divide_by", ["positives", "all"])
def test_graded_labels_are_those_of_equations_5_and_6(threshold, mu, divide_by):
    rows = 9 * SIZE
    pair, similarity, rng = make_pair("related", rows), exact_matrix("related", rows), np.random.default_rng(2)
    labels = rng.random(rows) if threshold or mu else rng.integers(2, size=rows).astype(float)
    perm, t = rng.permutation(rows), threshold or 0.5
    found = report(
        pair.x,
        pair.y,
        perm,
        labels=labels,
        batch_size=SIZE,
        temperature=TAU,
        label_threshold=threshold,
        bsc_mse=mu,
        bsc_divide_by=divide_by,
        trials=1,
    )

    def loss(batches):
        means = [reference.bsc_loss(similarity[np.ix_(rows, rows)], labels[rows], t, TAU) for rows in batches]
        squares = [reference.bsc_loss(similarity[np.ix_(rows, rows)], labels[rows], t, TAU, 0.0) for rows in batches]
        weight = mu or 1.0
        share = np.mean(labels > t) if divide_by == "positives" else 1.0
        return weight * np.mean(means) / share + (1 - weight) * np.mean(squares)

    assert found.loss.plan == pytest.approx(loss(perm.reshape(-1, SIZE)), abs=1e-6)
    assert found.loss.global_ == pytest.approx(loss([np.arange(rows)]), abs=1e-6)
    random = np.random.default_rng([0, 0x7121A1, 0]).permutation(rows)
    assert found.loss.random_mean == pytest.approx(loss(random.reshape(-1, SIZE)), abs=1e-6)
    assert found.gap.plan == pytest.approx(found.loss.global_ - found.loss.plan, abs=1e-9)
    assert found.gap.oracle <= found.gap.plan
    assert (found.mutual_information_bound is None) == (divide_by == "all" or mu is not None)


@pytest.mark.parametrize("how", ["l2", "min-max", "range"])
@pytest.mark.parametrize(("tau", "dtype"), [(0.05, "float32"), (1.2, "float16"), (3.0, "float64")])
def test_normalisation_by_coordinates_takes_raw_rows_and_the_rows_of_a_batch(how, tau, dtype):
    rows, rng = 9 * SIZE, np.random.default_rng(5)
    x, y = ((3 + rng.normal(size=(rows, 12)) * rng.uniform(0.1, 9, 12)).astype(dtype) for _ in "xy")
    labels, perm = rng.integers(2, size=rows), rng.permutation(rows)
    settings = {"batch_size": SIZE, "temperature": tau, "batch_coordinates": how, "trials": 1}
    found, labelled = (
        report(x, y, perm, **settings, **more) for more in ({}, {"labels": labels, "bsc_divide_by": "all"})
    )

    def loss(batches, labels):
        normal = [[reference.by_coordinates(side[batch], how) for side in (x, y)] for batch in batches]
        return np.mean(
            [
                reference.bsc_loss(a @ b.T, labels[batch], 0.5, tau)
                for (a, b), batch in zip(normal, batches, strict=True)
            ]
        )

    random = np.random.default_rng([0, 0x7121A1, 0]).permutation(rows)
    orders = {"plan": perm.reshape(-1, SIZE), "global_": [np.arange(rows)], "random_mean": random.reshape(-1, SIZE)}
    for name, batches in orders.items():
        assert getattr(found.coordinates, name) == pytest.approx(loss(batches, np.ones(rows)), rel=1e-5, abs=1e-5)
        assert getattr(labelled.coordinates, name) == pytest.approx(loss(batches, labels), rel=1e-5, abs=1e-5)
