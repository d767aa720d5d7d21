"""The batch-softmax shufflings against their algorithms written as plain loops over float64 similarities."""

from itertools import chain, combinations, groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit_data import make_pair, numbers_of

from gcbs_cli.data.grid import make_grid
from gcbs_cli.orders import PlannerInput, planner_named
from gcbs_cli.orders.bsc import group_by_word, neighbour_shingles, plan_knn_groups, text_shingles, text_words
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.whole_numbers import k_means, whole
from gcbs_cli.settings.plan import BscSettings, PlanSettings


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


@given(rows=st.integers(2, 60), width=st.integers(1, 20), group_size=st.integers(2, 9), seed=st.integers(0, 999))
@settings(deadline=None, max_examples=60)
def test_knn_groups_is_algorithm_1_reversed(rows, width, group_size, seed):
    rng = np.random.default_rng(seed)
    lists = [rng.permutation(np.setdiff1d(np.arange(rows), [i]))[:width] for i in range(rows)]
    neighbours, contents = np.array(lists, np.int32), rng.integers(rows, size=rows)
    for numbers in (None, contents):
        found = plan_knn_groups(neighbours, group_size, np.random.default_rng(seed), numbers)
        visits = np.random.default_rng(seed).permutation(rows).tolist()
        groups = algorithm_1(neighbours.tolist(), visits, group_size, np.arange(rows) if numbers is None else numbers)
        assert found.tolist() == list(chain.from_iterable(groups))[::-1]


@pytest.mark.parametrize("by", ["x", "y", "both"])
def test_knn_groups_finds_its_neighbours_itself(by):
    pair = make_pair("related", 150)
    side = {"x": pair.x, "y": pair.y, "both": np.hstack([pair.x, pair.y]) * np.float32(np.sqrt(0.5))}[by]
    near = numbers_of(make_grid(side, side))
    np.fill_diagonal(near, near.min() - 1)
    neighbours = np.argsort(-near, axis=1, kind="stable")[:, :30]
    given_input = PlannerInput(pair, PlanSettings(seed=7, bsc_by=by, bsc_neighbours=30, bsc_group_size=7))
    visits = np.random.default_rng([7, 0xB5C]).permutation(150).tolist()
    groups = algorithm_1(neighbours.tolist(), visits, 7, range(150))
    assert planner_named("knn-groups").plan(given_input).tolist() == list(chain.from_iterable(groups))[::-1]
    sizes = [len(group) for group in groups]
    assert np.mean(sizes[:10]) > np.mean(sizes[-10:])  # which is why the order is reversed


def test_identical_rows_are_passed_over_on_request():
    pair = make_pair("duplicates", 40)  # five contents
    first = np.random.default_rng([1, 0xB5C]).permutation(40)[0]
    twin = (pair.x == pair.x[first]).all(axis=1)
    for skip in (False, True):
        bsc = PlanSettings(seed=1, bsc_by="x", bsc_skip_identical=skip, bsc_group_size=40)
        order = planner_named("knn-groups").plan(PlannerInput(pair, bsc))
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
@settings(deadline=None, max_examples=60)
def test_words_are_grouped(rows, kinds, group_size, seed):
    words = np.random.default_rng([seed, 1]).integers(kinds, size=rows)
    order = group_by_word(words, group_size, np.random.default_rng(seed))
    assert sorted(order.tolist()) == list(range(rows))
    check_groups(order.tolist(), words.tolist(), group_size)


def test_groups_come_in_random_order_and_with_random_members():
    words = np.repeat(np.arange(20), 8)
    orders = np.array([group_by_word(words, 4, np.random.default_rng(seed)) for seed in range(2000)])
    first = np.bincount(words[orders[:, 0]], minlength=20)
    assert np.abs(first - 100).max() < 5 * 10
    together = np.array([[words[row] == 0 for row in order] for order in orders[:50]]).nonzero()[1].reshape(50, 8)
    pairs = {tuple(sorted(order[places[:4]].tolist())) for order, places in zip(orders, together, strict=False)}
    assert len(pairs) > 20


def test_texts_lose_stop_words_and_case_and_words_are_any_or_in_a_row_as_asked():
    words = text_words("Return the SORTED list, or a copy of it: x_1 is 2")
    assert " ".join(words) == "return sorted list copy x_1 2"
    texts = ["one two three"] * 40
    for shingle, shared in (("subset", 3), ("consecutive", 2)):
        bsc = PlanSettings(bsc_words=2, bsc_shingle=shingle, bsc_group_size=40)
        given_input = PlannerInput(make_pair("related", 40), bsc, inputs={"texts": texts})
        numbers = text_shingles(texts, 2, np.random.default_rng([0, 0xB5C]), consecutive=shingle == "consecutive")
        order = planner_named("words").plan(given_input)
        assert len(list(groupby(numbers[order]))) == len(set(numbers.tolist())) == shared


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
            planner_named(method).plan(PlannerInput(pair, PlanSettings(batch_size=16, seed=3), backend=device))
            for device in (backend, CpuBackend(1), None)
        ]
        assert len({order.tobytes() for order in orders}) == 1


def test_settings_that_depend_on_the_method_or_on_the_rows():
    assert (BscSettings().neighbours_for("neighbours"), BscSettings().neighbours_for("knn-groups")) == (3, 500)
    assert BscSettings(bsc_neighbours=7).neighbours_for("knn-groups") == 7
    assert BscSettings().clusters_for(1000, 64) == 16
    assert BscSettings().clusters_for(10**7, 64) == 1024
