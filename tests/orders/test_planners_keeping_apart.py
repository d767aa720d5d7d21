"""Rows that must never share a batch: kept apart by every method and option, or said to be impossible."""

import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies
from unit_data import make_pair

from gcbs_cli.orders.keeping_apart import check_possible, conflicts, duplicate_labels, keep_apart
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.errors import BadInput


def shared(perm, labels, size):
    """Pairs of rows of one label in one batch, counted by a loop."""
    found = 0
    for start in range(0, len(perm), size):
        own = [label for label in labels[perm[start : start + size]].tolist() if label >= 0]
        found += len(own) - len(set(own))
    return found


@pytest.mark.parametrize("refine", [False, True], ids=["plain", "refined"])
@pytest.mark.parametrize("graph", [{"graph": "top-m", "top": 5}, {"quantile": 0.99}], ids=["top-m", "isolated rows"])
@pytest.mark.parametrize("method", ["rcm", "metis", "random", "clusters"])
def test_groups_never_share_a_batch(method, graph, refine):
    if method == "metis":
        pytest.importorskip("pymetis")
    groups = np.random.default_rng(0).integers(40, size=250)
    asked = PlanSettings(batch_size=12, method=method, refine=refine, **graph)
    perm = make_plan(make_pair("related", 250), asked, groups=groups).perm
    assert shared(perm, groups, 12) == 0
    assert sorted(perm.tolist()) == list(range(250))


def test_groups_stay_apart_when_groups_are_mixed_and_duplicates_too():
    pair = make_pair("duplicates", 60)
    mixed = PlanSettings(batch_size=4, no_duplicates=True, refine=True, group_size=2)
    labels = duplicate_labels(pair.x), duplicate_labels(pair.y)
    assert all((line >= 0).all() for line in labels)
    with pytest.raises(BadInput, match="no-duplicates: one group has"):
        make_plan(pair, mixed)
    groups = np.arange(60) // 6
    perm = make_plan(make_pair("related", 60), PlanSettings(batch_size=4, group_size=2), groups=groups)
    assert shared(perm.perm, groups, 4) == 0


@given(strategies.lists(strategies.integers(-1, 5), min_size=4, max_size=40), strategies.integers(2, 6))
@settings(max_examples=150, deadline=None)
def test_one_kind_of_labels_is_kept_apart_exactly_where_that_is_possible(line, size):
    labels = np.array([line], np.int64)
    rows = len(line)
    if not _possible(line, size):
        with pytest.raises(BadInput):
            check_possible(labels, rows, size, "--groups")
        return
    check_possible(labels, rows, size, "--groups")
    perm = keep_apart(np.arange(rows), labels, size, 0)
    assert sorted(perm.tolist()) == list(range(rows))
    assert conflicts(perm, labels, size) == shared(perm, labels[0], size) == 0


def _possible(line, size):
    """By dealing the largest groups first into the batches with most room, which finds a way where there is one."""
    room = [size] * (len(line) // size) + ([len(line) % size] if len(line) % size else [])
    for count in sorted((line.count(label) for label in set(line) if label >= 0), reverse=True):
        room.sort(reverse=True)
        if count > len(room) or room[count - 1] == 0:
            return False
        room = [left - (place < count) for place, left in enumerate(room)]
    return True


def test_duplicates_are_equal_rows():
    side = np.array([[1, 0], [0, 1], [1, -0.0], [0.6, 0.8]], np.float32)
    labels = duplicate_labels(side)
    assert labels[0] == labels[2] >= 0
    assert labels[1] == labels[3] == -1


@pytest.mark.parametrize("size", [7, 30])
def test_two_kinds_of_labels_that_fill_all_batches_make_a_latin_square(size):
    labels = np.stack(np.divmod(np.arange(size * size), size))
    for seed in range(3):
        perm = keep_apart(np.random.default_rng(seed).permutation(size * size), labels, size, seed)
        assert sorted(perm.tolist()) == list(range(size * size))
        assert conflicts(perm, labels, size) == 0


@given(
    strategies.integers(2, 12), strategies.integers(1, 12), strategies.integers(0, 2), strategies.integers(0, 1 << 30)
)
@settings(max_examples=150, deadline=None)
def test_two_kinds_of_labels_are_kept_apart_wherever_a_plan_does_so(size, batches, more, seed):
    """Batches that differ in both kinds of labels, the last one short, in an order that hides it."""
    generator = np.random.default_rng(seed)
    sizes = [size] * batches + [int(generator.integers(1, size))]
    labels = np.stack([np.concatenate([generator.permutation(size + more)[:n] for n in sizes]) for _ in "ab"])
    labels[generator.random(labels.shape) < 0.1] = -1
    perm = keep_apart(generator.permutation(sum(sizes)), labels, size, seed)
    assert sorted(perm.tolist()) == list(range(sum(sizes)))
    assert conflicts(perm, labels, size) == shared(perm, labels[0], size) + shared(perm, labels[1], size) == 0


def test_labels_that_no_plan_keeps_apart_are_refused():
    """The last batch has one row, and would need one of each of two labels that have rows for both batches."""
    labels = np.array([[0, 0, -1, -1], [-1, -1, 0, 0]])
    check_possible(labels, 4, 3, "--groups")
    with pytest.raises(BadInput, match="could not be kept"):
        keep_apart(np.arange(4), labels, 3, 0)
    line = np.concatenate([np.zeros(1000), np.ones(1000), np.arange(2, 5995)]).astype(np.int64)
    check_possible(np.where(line == 1, -1, line)[None], 7993, 8, "--groups")
    with pytest.raises(BadInput, match="too large for batches of 8"):
        check_possible(line[None], 7993, 8, "--groups")


def test_groups_that_fill_batches_cost_seconds():
    labels = (np.random.default_rng(0).permutation(20_480) % 64)[None]
    keep_apart(np.arange(49), np.stack(np.divmod(np.arange(49), 7)), 7, 0)  # compiles
    began = time.perf_counter()
    assert conflicts(keep_apart(np.arange(20_480), labels, 64, 0), labels, 64) == 0
    assert time.perf_counter() - began < 3.0
