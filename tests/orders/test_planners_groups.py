"""Groups that batches are made of, against plain loops, and rows that must never share a batch."""

import time
from itertools import chain, combinations, groupby

import numpy as np
import pytest
from hypothesis import given, settings, strategies
from hypothesis import strategies as st
from unit_data import make_pair, numbers_of

from gcbs_cli.data.grid import make_grid
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.orders import METHODS, MethodInput
from gcbs_cli.orders.bsc import group_by_word, neighbour_shingles, text_shingles, text_words
from gcbs_cli.orders.k_means import k_means, whole
from gcbs_cli.orders.keeping_apart import check_possible, duplicate_labels, keep_apart, labels_of
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.errors import BadInput


def algorithm_1(neighbours, visits, group_size, contents):
    """Groups as lists, in the order in which they are made."""
    used, groups = set(), []
    for row in visits:
        if row in used:
            continue
        free = [j for j in neighbours[row] if j not in used and contents[j] != contents[row]]
        group = [row, *free[: group_size - 1]]
        used.update(group)
        groups.append(group)
    return groups


@pytest.mark.parametrize("by", ["x", "y", "both"])
def test_knn_groups_finds_its_neighbours_itself(by):
    pair = make_pair("related", 150)
    side = {"x": pair.x, "y": pair.y, "both": np.hstack([pair.x, pair.y]) * np.float32(np.sqrt(0.5))}[by]
    near = numbers_of(make_grid(side, side))
    np.fill_diagonal(near, near.min() - 1)
    neighbours = np.argsort(-near, axis=1, kind="stable")[:, :30]
    asked = MethodInput(pair, PlanSettings(seed=7, bsc_by=by, bsc_neighbours=30, bsc_group_size=7), CpuBackend())
    visits = np.random.default_rng([7, 0xB5C]).permutation(150).tolist()
    groups = algorithm_1(neighbours.tolist(), visits, 7, range(150))
    assert METHODS["knn-groups"].order(asked).tolist() == list(chain.from_iterable(groups))[::-1]
    sizes = [len(group) for group in groups]
    assert np.mean(sizes[:10]) > np.mean(sizes[-10:])  # which is why the order is reversed


def test_identical_rows_are_passed_over_on_request():
    pair = make_pair("duplicates", 40)  # five contents
    first = np.random.default_rng([1, 0xB5C]).permutation(40)[0]
    twin = (pair.x == pair.x[first]).all(axis=1)
    for skip in (False, True):
        bsc = PlanSettings(seed=1, bsc_by="x", bsc_skip_identical=skip, bsc_group_size=40)
        order = METHODS["knn-groups"].order(MethodInput(pair, bsc, CpuBackend()))
        group = order[::-1][: 41 - twin.sum()]  # the first one, or its beginning
        assert twin[group].sum() == (1 if skip else min(len(group), twin.sum()))


def check_groups(order, words, group_size):
    """Equal words lie in groups of at most s, as few as there can be; groups of one word are not kept together."""
    runs = [(word, len(list(run))) for word, run in groupby(words[row] for row in order)]
    for word in set(words):
        count = words.count(word)
        # Groups of one word may meet by chance; then they are whole groups and at most one rest.
        assert sum(size % group_size for other, size in runs if other == word) == count % group_size


@given(rows=st.integers(1, 80), kinds=st.integers(1, 30), group_size=st.integers(2, 9), seed=st.integers(0, 999))
@settings(max_examples=60)
def test_words_are_grouped(rows, kinds, group_size, seed):
    words = np.random.default_rng([seed, 1]).integers(kinds, size=rows)
    order = group_by_word(words, group_size, np.random.default_rng(seed))
    assert sorted(order.tolist()) == list(range(rows))
    check_groups(order.tolist(), words.tolist(), group_size)


def test_texts_lose_stop_words_and_case():
    words = text_words("Return the SORTED list, or a copy of it: x_1 is 2")
    assert " ".join(words) == "return sorted list copy x_1 2"


@pytest.mark.parametrize("consecutive", [False, True], ids=["any", "in a row"])
def test_shingles_are_words_of_a_text_each_choice_as_often(consecutive):
    texts, seen = ["delta beta the gamma alpha", "gamma", "the of", ""], {}
    every = [f"{a} {b}" for a, b in combinations(["alpha", "beta", "delta", "gamma"], 2)]
    for seed in range(3000):
        generator = np.random.default_rng(seed)
        numbers = text_shingles([*texts, *every], 2, generator, consecutive=consecutive)
        assert numbers[2] + 1 == numbers[3] == numbers.max()  # nothing in common
        assert (np.diff(numbers[4:]) > 0).all()  # sorted by their words
        (matched,) = [text for text, number in zip(every, numbers[4:], strict=True) if number == numbers[0]]
        seen[matched] = seen.get(matched, 0) + 1
    assert sorted(seen) == (["alpha gamma", "beta delta", "beta gamma"] if consecutive else every)
    assert max(abs(count - 3000 / len(seen)) for count in seen.values()) < 5 * np.sqrt(1000)


def test_neighbour_shingles_are_ids_of_the_row_and_its_neighbours_each_choice_as_often():
    neighbours = np.array([[1, 2], [0, 2], [3, 1], [2, 0]], np.int32)
    lists = [[row, *near] for row, near in enumerate(neighbours.tolist())]
    for length in (1, 2, 3, 9):
        equal = np.zeros((4, 4))
        for seed in range(2000):
            numbers = neighbour_shingles(neighbours, length, np.random.default_rng(seed))
            equal += numbers[:, None] == numbers
        choices = [set(combinations(sorted(near), min(length, 3))) for near in lists]
        chance = np.array([[len(a & b) / len(a) / len(b) for b in choices] for a in choices])
        np.fill_diagonal(chance, 1)
        assert np.abs(equal / 2000 - chance).max() < 5 * 0.5 / np.sqrt(2000)


@pytest.mark.parametrize("kind", ["related", "duplicates", "at-threshold", "1003-dimensions"])
def test_k_means_ends_where_lloyd_ends_in_whole_numbers(kind):
    side = make_pair(kind, 200).x
    rows = whole(side).astype(np.int64)
    centres = rows[np.sort(np.random.default_rng(3).choice(200, 7, replace=False))]
    last = None
    for _ in range(20):
        cluster = np.argmax(rows @ centres.T, axis=1)  # ties: the first
        if last is not None and (cluster != last).sum() <= 0.2:
            break
        last = cluster
        for number in range(7):
            total = rows[cluster == number].sum(axis=0)
            if total.any():
                centres[number] = whole(np.float32(total / np.linalg.norm(total))).astype(np.int64)
    assert k_means(whole(side), 7, np.random.default_rng(3))[0].tolist() == cluster.tolist()


@pytest.mark.parametrize("method", ["knn-groups", "clusters", "neighbours"])
def test_the_plan_is_the_same_on_every_backend(method, backend):
    for kind in ("related", "duplicates", "all-equal"):
        pair = make_pair(kind, 130)
        orders = [
            METHODS[method].order(MethodInput(pair, PlanSettings(batch_size=16, seed=3), device))
            for device in (backend, CpuBackend(1))
        ]
        assert len({order.tobytes() for order in orders}) == 1


def shared(perm, labels, size):
    """Pairs of rows of one label in one batch, counted by a loop."""
    found = 0
    for start in range(0, len(perm), size):
        own = [label for label in labels[perm[start : start + size]].tolist() if label >= 0]
        found += len(own) - len(set(own))
    return found


@pytest.mark.parametrize("refine", [False, True], ids=["plain", "refined"])
@pytest.mark.parametrize(
    "graph", [{"graph": "top-m", "group_size": 4}, {"quantile": 0.99}], ids=["mixed", "isolated rows"]
)
@pytest.mark.parametrize("method", ["rcm", "metis", "random", "clusters"])
def test_groups_never_share_a_batch(method, graph, refine):
    if method == "metis":
        pytest.importorskip("pymetis")
    groups = np.random.default_rng(0).integers(40, size=250)
    asked = PlanSettings(batch_size=12, method=method, refine=refine, **graph)
    perm = make_plan(make_pair("related", 250), asked, groups=groups).perm
    assert shared(perm, groups, 12) == 0
    assert sorted(perm.tolist()) == list(range(250))


@given(strategies.integers(4, 40), strategies.integers(2, 6), strategies.integers(0, 1 << 30))
@settings(max_examples=150)
def test_one_kind_of_labels_of_any_size_that_fits_is_kept_apart(rows, size, seed):
    """Even where every group has a row for nearly each batch, as long as the short last one can hold its share."""
    generator = np.random.default_rng(seed)
    batch = np.arange(rows) // size
    label = np.concatenate([generator.permutation(size)[:count] for count in np.bincount(batch)])
    label[generator.random(rows) < generator.choice([0.0, 0.2])] = -1
    perm = keep_apart(generator.permutation(rows), label[None], size, seed)
    assert sorted(perm.tolist()) == list(range(rows))
    assert shared(perm, label, size) == 0


@pytest.mark.parametrize("kinds", [1, 2, 3])
def test_groups_like_those_of_real_data_are_kept_apart_near_where_they_were(kinds):
    generator = np.random.default_rng(kinds)
    lines = [np.repeat(np.arange(200), generator.integers(5, 21, size=200))[:1000] for _ in range(kinds)]
    labels = np.stack([lines[0], *map(generator.permutation, lines[1:])])
    perm = keep_apart(np.arange(1000), labels, 16, 0)
    assert sorted(perm.tolist()) == list(range(1000))
    assert sum(shared(perm, line, 16) for line in labels) == 0
    assert np.median(abs(perm - np.arange(1000))) < 8 * 16


def test_duplicates_are_equal_rows():
    side = np.array([[1, 0], [0, 1], [1, -0.0], [0.6, 0.8]], np.float32)
    labels = duplicate_labels(side)
    assert labels[0] == labels[2] >= 0
    assert labels[1] == labels[3] == -1
    pair, one = PairedRows(side, side), np.array([0, -1, 0, -1])
    assert np.array_equal(labels_of(pair, one, no_duplicates=True), [one, labels, labels])
    assert labels_of(pair, np.full(4, -1), no_duplicates=False).size == 0


def test_labels_that_no_plan_keeps_apart_are_refused():
    """The last batch has one row, and would need one of each of two labels that have rows for both batches."""
    labels = np.array([[0, 0, -1, -1], [-1, -1, 0, 0]])
    check_possible(labels, 4, 3, "--groups")
    with pytest.raises(BadInput, match="could not be kept"):
        keep_apart(np.arange(4), labels, 3, 0)
    with pytest.raises(BadInput, match=r"^--groups: one group has 3 rows, and there are 2 batches of 2"):
        check_possible(np.array([[-1, 0, 0, 0]]), 4, 2, "--groups")


def test_groups_that_fill_batches_cost_seconds():
    generator = np.random.default_rng(0)
    labels = (generator.permutation(40_960) % 64)[None]
    keep_apart(np.arange(49), np.stack(np.divmod(np.arange(49), 7)), 7, 0)  # compiles
    began = time.process_time()
    assert shared(keep_apart(np.arange(40_960), labels, 64, 0), labels[0], 64) == 0
    assert time.process_time() - began < 3.0
    three = np.stack([generator.permutation(10_240) % 64 for _ in range(3)])
    with pytest.raises(BadInput, match="could not be kept"):
        keep_apart(np.arange(10_240), three, 64, 0)
    assert time.process_time() - began < 6.0
