"""The hardest-triplet loss against loops in float64."""

import numpy as np
import pytest
import reference
from unit_data import exact_matrix, grid_matrix, make_pair

from gcbs_cli.reports.build import make_reports
from gcbs_cli.settings.report import ReportSettings

ROWS = 67


def brute(similarity, perm, size, margin, hidden=()):
    """L_global and L_train; `hidden`: pairs left out, either way round."""
    batch = np.empty(ROWS, int)
    batch[perm] = np.arange(ROWS) // size
    losses = []
    for side in (similarity, similarity.T):
        for i in range(ROWS):
            others = [j for j in range(ROWS) if j != i and (min(i, j), max(i, j)) not in hidden]
            for keys in (others, [j for j in others if batch[j] == batch[i]]):
                hardest = max((side[i, j] for j in keys), default=-np.inf)
                losses.append(max(0.0, margin + hardest - side[i, i]))
    return np.mean(losses[::2]), np.mean(losses[1::2])


def report_of(pair, perm, size, margin, **settings):
    asked = ReportSettings(batch_sizes=[size], loss="triplet", loss_margin=margin, quantile=0.95, trials=2, **settings)
    return make_reports(pair, perm, asked)[0]


@pytest.mark.parametrize("kind", ["related", "duplicates", "hubs", "at-threshold"])
@pytest.mark.parametrize(("size", "margin"), [(8, 0.2), (11, 0.0), (67, 1.0)])
def test_losses_are_those_of_loops(kind, size, margin, chosen_backend):
    pair, similarity = make_pair(kind, ROWS), exact_matrix(kind, ROWS)
    perm = np.random.default_rng(1).permutation(ROWS)
    found = report_of(pair, perm, size, margin)
    whole, train = brute(similarity, perm, size, margin)
    losses = found.loss.global_, found.loss.plan, found.gap.plan
    assert losses == pytest.approx((whole, train, whole - train), abs=1e-6)
    assert (found.loss_kind, found.gap.oracle) == ("triplet", 0.0)
    assert (found.bounds.translation, found.bounds.logsumexp, found.mutual_information_bound) == (None, None, None)
    if size == 11:  # the last row has no negatives and loses nothing
        dropped = report_of(pair, perm, size, margin, drop_last=True)
        assert dropped.loss.plan == pytest.approx(train * ROWS / (ROWS - 1), abs=1e-6)
    orders = [np.random.default_rng([0, 0x7121A1, trial]).permutation(ROWS) for trial in range(2)]
    random = np.mean([brute(similarity, order, size, margin)[1] for order in orders])
    alone = report_of(pair, None, size, margin).loss
    assert (alone.global_, alone.random_mean) == pytest.approx((whole, random), abs=1e-6)
    assert alone.plan is None
    hidden = reference.suspected_pairs(grid_matrix(kind, ROWS), found.graph.threshold, 0.95)
    whole, train = brute(similarity, perm, size, margin, hidden)
    assert found.gap.masked.plan == pytest.approx(whole - train, abs=1e-6)
