"""Pairs that a plan can hold apart, counted against a double loop."""

from itertools import combinations

import numpy as np
import pytest
from unit_data import exact_matrix, make_pair

from gcbs_cli.reports.build import make_reports
from gcbs_cli.reports.schema import HeldApart
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.errors import BadInput

ROWS, SIZE = 60, 8
PERM = np.random.default_rng(5).permutation(ROWS)


def false_negatives(kind, perm=PERM, **changed):
    settings = ReportSettings(batch_sizes=(SIZE,), trials=3, device="cpu", **changed)
    return make_reports(make_pair(kind, ROWS), perm, settings)[0].false_negatives


def inside(pairs, perm):
    batch = np.argsort(perm) // SIZE
    return sum(batch[i] == batch[j] for i, j in pairs)


@pytest.mark.parametrize("kind", ["related", "duplicates", "all-equal"])
def test_duplicates_are_pairs_with_equal_x_or_equal_y(kind):
    pair = make_pair(kind, ROWS)
    equal = [
        (i, j)
        for i, j in combinations(range(ROWS), 2)
        if np.array_equal(pair.x[i], pair.x[j]) or np.array_equal(pair.y[i], pair.y[j])
    ]
    found = false_negatives(kind, duplicates=True).duplicates
    assert (found.total, found.plan) == (len(equal), inside(equal, PERM))


@pytest.mark.parametrize("top", [1, 3, ROWS - 1])
@pytest.mark.parametrize("kind", ["related", "duplicates"])
def test_hardest_ranks_are_those_of_the_exact_matrix(kind, top):
    exact = exact_matrix(kind, ROWS).copy()
    np.fill_diagonal(exact, -np.inf)
    ranked = np.argsort(-exact, axis=1, kind="stable")[:, : min(top, ROWS - 1)]
    pairs = {(min(i, j), max(i, j)) for i in range(ROWS) for j in ranked[i].tolist()}
    found = false_negatives(kind, fn_top=top)
    assert found.top_ranks == top
    assert (found.top.total, found.top.plan) == (len(pairs), inside(pairs, PERM))


def test_random_batches_hold_as_many_as_any_where_all_rows_are_equal():
    found = false_negatives("all-equal", duplicates=True)
    assert found.duplicates == HeldApart(total=1770, plan=7 * 28 + 6, random=7 * 28 + 6)


def test_nothing_is_counted_unasked_and_no_plan_has_no_figure():
    unasked = false_negatives("related")
    assert (unasked.top_ranks, unasked.top, unasked.duplicates) == (None, None, None)
    without = false_negatives("related", perm=None, fn_top=1, duplicates=True)
    assert without.top.plan is None
    assert without.duplicates.plan is None
    assert without.top.random > 0


def test_a_negative_rank_is_refused():
    with pytest.raises(BadInput, match=r"--fn-top -1: expected 0 or more"):
        false_negatives("related", fn_top=-1)
