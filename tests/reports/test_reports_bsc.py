"""The batch-softmax loss with several positives and labelled negatives, against loops in float64."""

import math

import numpy as np
import pytest
import reference
from unit_data import exact_matrix, make_pair, numbers_of, unit

from gcbs_cli.api import report
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.reports.basis import RowFacts
from gcbs_cli.reports.build import make_reports
from gcbs_cli.settings.report import LossKind, ReportSettings
from gcbs_cli.system.errors import BadInput

ROWS, SIZE, TAU = 70, 8, 0.1


def row_loss(similarity, i, keys, ids, asks):
    """The loss of one query: the mean over its positives among the keys, outside the logarithm."""
    total = math.log(math.fsum(math.exp(similarity[i, j] / TAU) for j in keys))
    positives = [j for j in keys if ids[j] == ids[i] and asks[j]]
    return math.fsum(total - similarity[i, p] / TAU for p in positives) / len(positives)


def brute(similarity, perm, ids, asks, hidden=()):
    """L_global and L_train, both directions, without the keys of `hidden` pairs (i, j), i < j."""
    whole, train = [], []
    batch = np.empty(ROWS, int)
    batch[perm] = np.arange(ROWS) // SIZE
    for side in (similarity, similarity.T):
        for i in np.flatnonzero(asks):
            keys = [j for j in range(ROWS) if (min(i, j), max(i, j)) not in hidden]
            whole.append(row_loss(side, i, keys, ids, asks))
            train.append(row_loss(side, i, [j for j in keys if batch[j] == batch[i]], ids, asks))
    return np.mean(whole), np.mean(train)


def report_of(pair, perm, *labels, kind=LossKind.BSC, margin=0.95, groups=None):
    settings = ReportSettings(
        batch_sizes=[SIZE], temperatures=[TAU], loss=[kind], quantile=0.95, trials=2, fn_margin=margin
    )
    return make_reports(pair, perm, settings, facts=RowFacts(*labels, groups=groups))[0]


@pytest.mark.parametrize("kind", ["related", "duplicates"])
@pytest.mark.parametrize(("with_ids", "with_labels"), [(True, False), (False, True), (True, True)])
def test_losses_are_those_of_loops(kind, with_ids, with_labels, chosen_backend):
    pair, similarity = make_pair(kind, ROWS), exact_matrix(kind, ROWS)
    rng = np.random.default_rng(8)
    ids = rng.integers(25, size=ROWS) if with_ids else np.arange(ROWS)
    asks = rng.random(ROWS) < 0.7 if with_labels else np.ones(ROWS, bool)
    perm = rng.permutation(ROWS)
    found = report_of(pair, perm, ids, asks if with_labels else None)
    whole, train = brute(similarity, perm, ids, asks)
    losses = found.loss.global_, found.loss.plan, found.gap.plan
    assert losses == pytest.approx((whole, train, whole - train), abs=1e-5)
    assert (found.loss_kind, found.bounds.translation) == ("bsc", None)
    assert (found.gap.closed_share is None) == with_ids
    orders = [np.random.default_rng([0, 0x7121A1, trial]).permutation(ROWS) for trial in range(2)]
    random = np.mean([brute(similarity, order, ids, asks)[1] for order in orders])
    alone = report_of(pair, None, ids, asks).loss
    assert (alone.global_, alone.random_mean) == pytest.approx((whole, random), abs=1e-5)


@pytest.mark.parametrize("with_groups", [False, True], ids=["alone", "groups"])
@pytest.mark.parametrize("with_labels", [False, True], ids=["ids", "both"])
def test_known_positives_are_not_suspected(with_labels, with_groups, chosen_backend):
    """Clusters of five whose members are known to be positives of each other, but for those labelled 0."""
    clusters = np.arange(ROWS) // 10
    ids = np.arange(ROWS) // 5
    asks = np.arange(ROWS) % 6 != 0 if with_labels else np.ones(ROWS, bool)
    generator = np.random.default_rng(4)
    centres = generator.normal(size=(ROWS // 10, 16))
    pair = PairedRows(*(unit(centres[clusters] + 0.6 * generator.normal(size=(ROWS, 16))) for _ in "xy"))
    similarity = reference.similarity_matrix(pair.x, pair.y)
    perm = np.arange(ROWS)
    groups = np.where(np.arange(ROWS) < 60, np.arange(ROWS) // 6, -1) if with_groups else None
    found = report_of(pair, perm, ids, asks if with_labels else None, margin=0.8, groups=groups)
    compared = (numbers_of(pair.grid) + pair.grid.constant) / pair.grid.scale**2
    suspects = reference.suspected_pairs(compared, found.graph.threshold, 0.8)
    if groups is not None:
        suspects |= {(i, j) for i in range(60) for j in range(i + 1, 60) if groups[i] == groups[j]}
    known = {(i, j) for i, j in suspects if ids[i] == ids[j] and asks[i] and asks[j]}
    inside = [(i, j) for i, j in suspects - known if i // SIZE == j // SIZE]
    assert known
    assert found.false_negatives.suspected_pairs == len(inside) > 0
    assert found.false_negatives.rows == len({row for pair in inside for row in pair})
    whole, train = brute(similarity, perm, ids, asks, suspects - known)
    assert found.gap.masked.plan == pytest.approx(whole - train, abs=1e-5)


@pytest.mark.parametrize("kind", ["related", "duplicates"])
def test_equal_rows_of_x_are_positives_by_default(kind):
    """Where none are equal it is the symmetric loss."""
    pair, perm = make_pair(kind, ROWS), np.random.default_rng(0).permutation(ROWS)
    ours = report_of(pair, perm).model_dump()
    if kind == "related":
        theirs = report_of(pair, perm, kind=LossKind.SYMMETRIC).model_dump()
    else:
        theirs = report_of(pair, perm, np.unique(pair.x, axis=0, return_inverse=True)[1].reshape(-1)).model_dump()
    for part in ("loss", "positive_probability"):
        assert ours[part] == pytest.approx(theirs[part], abs=1e-9)
    assert ours["gap"]["masked"] == pytest.approx(theirs["gap"]["masked"], abs=1e-9)


def test_no_positive_at_all_is_refused():
    with pytest.raises(BadInput, match="no row is a positive pair"):
        report_of(make_pair("related", ROWS), None, None, np.zeros(ROWS))


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
