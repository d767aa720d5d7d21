"""The swaps: exact gains against sums written out, an objective that only rises, the same bytes from any start."""

import numpy as np
import pytest
from unit_data import find_hard_pairs, make_pair, unit

from gcbs_cli.api import plan
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.graph.hard_pairs import weigh
from gcbs_cli.orders import swaps
from gcbs_cli.orders.keeping_apart import NO_LABELS, keep_apart, order_of
from gcbs_cli.orders.refinement import refine
from gcbs_cli.orders.swap_gains import SwapGains, sample_background, swap_gains
from gcbs_cli.orders.swaps import gain_of_swap, new_scratch, new_state
from gcbs_cli.orders.swaps import objective as sum_up
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.settings.plan import GraphSettings, PlanSettings
from gcbs_cli.system.randomness import Stream

ROWS, SIZE = 150, 16


@pytest.fixture(scope="module")
def gains():
    """Candidates of related rows, some too hard; the last batch is short."""
    pair = make_pair("related", ROWS)
    settings = PlanSettings(graph="top-m", top=6)
    backend = CpuBackend()
    threshold = find_threshold(pair.grid, GraphSettings(threshold=0.4), 0, backend)
    weighted = weigh(find_hard_pairs(pair, settings, threshold, backend).graph, pair)
    gains = swap_gains(weighted, pair, 0.1, SIZE, sample_background(pair, 0.1, seed=0))
    assert 20 < (gains.shares < 0).sum() < (gains.shares > 0).sum()
    return gains


@pytest.fixture
def vast_gains():
    """At low temperatures a hard negative is all that its row sees: shares up to e¹⁶, half of them too hard."""
    generator = np.random.default_rng(0)
    shares = np.exp(generator.uniform(-16, 16, (ROWS, ROWS, 2))) * generator.choice([-1.0, 1.0], (ROWS, ROWS, 2))
    rows, cols = np.nonzero(~np.eye(ROWS, dtype=bool))
    both = np.concatenate([shares[rows, cols], shares[cols, rows]], axis=1).astype(np.float32)
    base = generator.uniform(0, 1, (ROWS, 2))
    return SwapGains(np.arange(0, ROWS * (ROWS - 1) + 1, ROWS - 1), cols.astype(np.int32), both, base)


def objective(gains, batch):
    """Σ (base + Σ shares to learn from) / (1 + Σ all shares), written out over matrices."""
    rows = len(batch)
    shares = np.zeros((2, rows, rows))
    own = np.repeat(np.arange(rows), np.diff(gains.indptr))
    shares[:, own, gains.indices] = gains.shares[:, :2].T
    shares *= batch[:, None] == batch[None, :]
    learnable = gains.base.T + np.maximum(shares, 0).sum(axis=2)
    return float((learnable / (1 + np.abs(shares).sum(axis=2))).sum())


def test_objective_and_gain_of_a_swap_equal_sums_written_out(gains):
    generator = np.random.default_rng(1)
    perm = generator.permutation(ROWS)
    place = np.argsort(perm)
    batch, state = place // SIZE, new_state(gains)
    before = sum_up(order_of(perm, NO_LABELS, SIZE), state)
    assert before == pytest.approx(objective(gains, np.argsort(perm) // SIZE), rel=1e-12)
    changed = 0
    for u, v in generator.integers(ROWS, size=(300, 2)):
        if batch[u] == batch[v]:
            continue
        swapped = perm.copy()
        swapped[place[u]], swapped[place[v]] = v, u
        gain = gain_of_swap(u, v, batch, state)
        assert gain == pytest.approx(objective(gains, np.argsort(swapped) // SIZE) - before, abs=1e-9)
        changed += abs(gain) > 1e-3
    assert changed > 100


@pytest.mark.parametrize("kind", ["gains", "vast_gains"])
def test_refinement_rises_and_says_what_a_recomputed_objective_says(kind, request):
    gains = request.getfixturevalue(kind)
    start = np.random.default_rng(3).permutation(ROWS)
    perm, done = refine(start, gains, SIZE)
    assert sorted(perm.tolist()) == list(range(ROWS))
    assert done.objective_before == pytest.approx(objective(gains, np.argsort(start) // SIZE) / (2 * ROWS))
    assert done.objective_after == pytest.approx(objective(gains, np.argsort(perm) // SIZE) / (2 * ROWS))
    assert done.objective_after > 1.1 * done.objective_before
    assert 1 < done.sweeps < done.swaps


def learnable_share(pair, perm, size, temperature):
    """The softmax weight, over its batch, of the negatives less similar than a row's positive; a loop over the rows."""
    similarity = pair.x.astype(np.float64) @ pair.y.astype(np.float64).T
    shares = []
    for side in (similarity, similarity.T):
        for place, row in enumerate(perm):
            batch = perm[place - place % size :][:size]
            weights = np.exp(side[row, batch] / temperature)
            shares.append(weights[side[row, batch] < side[row, row]].sum() / weights.sum())
    return np.mean(shares)


@pytest.mark.parametrize("kind", ["related", "random"], ids=["strong-positives", "weak-positives"])
@pytest.mark.parametrize("graph", ["quantile", "top-m"])
def test_refinement_raises_the_learnable_share_that_it_says(graph, kind):
    pair = make_pair(kind, 400)
    settings = PlanSettings(batch_size=20, graph=graph, per_row=16)
    start, done = (make_plan(pair, settings.changed(refine=refine)) for refine in (False, True))
    before, after = (learnable_share(pair, plan.perm, 20, 0.05) for plan in (start, done))
    assert after > 1.1 * before
    said = done.refinement.objective_after - done.refinement.objective_before
    assert said == pytest.approx(after - before, rel=0.6)


def test_candidates_are_to_learn_from_where_they_are_less_similar_than_the_positive_of_their_row():
    pair = make_pair("related", 40)
    x, y = pair.x.copy(), pair.y.copy()
    x[1], y[1] = x[0], y[0]  # s_01 = s_00 = s_11, to the last bit
    pair = PairedRows(x, y)
    every = weigh(adjacency_from_pairs(40, *np.int32(np.triu_indices(40, 1))), pair)
    gains = swap_gains(every, pair, 0.1, 8, sample_background(pair, 0.1, seed=0))
    similarity = x.astype(np.float64) @ y.T.astype(np.float64)
    positive = np.diag(similarity)
    i, j = every.graph.row_of_entry(), every.graph.indices
    ways = [(i, similarity[i, j]), (i, similarity[j, i]), (j, similarity[j, i]), (j, similarity[i, j])]
    for column, (row, values) in enumerate(ways):
        shares = gains.shares[:, column]
        assert (shares[values > positive[row] + 1e-6] <= 0).all()
        assert (shares[values < positive[row] - 1e-6] >= 0).all()
    assert (gains.shares[0] < 0).all()
    # All 40 rows are in the sample, and each counts its own positive among the keys.
    weights = np.exp(similarity / 0.1)
    learnable = np.where(similarity < positive[:, None], weights, 0).sum(axis=1)
    total = np.exp(positive / 0.1) + 7 * weights.mean(axis=1)
    assert gains.base[:, 0] == pytest.approx(7 * learnable / 40 / total, rel=0.02, abs=1e-3)


@pytest.mark.parametrize("labelled", [False, True], ids=["free", "labels"])
def test_same_bytes_with_any_number_of_threads(gains, monkeypatch, labelled):
    labels = np.stack([np.arange(ROWS) // 5, np.arange(ROWS) % 60]) if labelled else NO_LABELS
    perm = keep_apart(np.random.default_rng(2).permutation(ROWS), labels, 4, 0)
    done = []
    for threads in (1, 2, 7):
        monkeypatch.setattr("gcbs_cli.orders.refinement.available_cpus", lambda threads=threads: threads)
        done.append(refine(perm, gains, 4, labels=labels, seed=4))
    assert done[0][1].swaps > 100
    assert len({one.tobytes() for one, _ in done}) == 1
    assert done[0][1] == done[1][1] == done[2][1]
    for label in labels:
        assert all(len(set(label[batch])) == 4 for batch in done[0][0][:148].reshape(-1, 4))


def test_a_pair_is_worth_what_it_adds_to_the_learnable_shares_of_both_rows(gains):
    rows = np.repeat(np.arange(ROWS), np.diff(gains.indptr))
    base = np.concatenate([gains.base[rows], gains.base[gains.indices]], axis=1)
    shares = gains.shares.astype(float)
    worth = (base + np.maximum(shares, 0)) / (1 + np.abs(shares)) - base
    assert gains.worth() == pytest.approx(worth.sum(axis=1), abs=1e-5)


@pytest.mark.parametrize("kind", ["gains", "vast_gains"])
def test_what_rows_gain_by_joining_a_batch_or_staying_equals_sums_written_out(kind, request):
    gains, perm = request.getfixturevalue(kind), np.random.default_rng(1).permutation(ROWS)
    order, state, scratch = order_of(perm, NO_LABELS, SIZE), new_state(gains), new_scratch(ROWS, 10)
    before = sum_up(order, state)
    swaps.fill_own(order, state)
    for row in perm[:SIZE]:
        swaps._join(row, order, state, scratch)
    for row in perm[SIZE:]:
        swaps._gather(row, order.place[row], state, scratch.joins, scratch)
    own, around = perm[SIZE], new_scratch(ROWS, 10)
    swaps._look_around(own, order, state, around)
    assert around.worth[0] == pytest.approx(scratch.joins[order.place[own]], rel=1e-6)
    for row in perm[SIZE::4]:
        batch = order.batch.copy()
        batch[row] = -1
        without, batch[row] = objective(gains, batch), 0
        joined = objective(gains, batch) - without
        assert scratch.joins[order.place[row]] == pytest.approx(joined, rel=1e-6, abs=1e-9)
        assert state.own[order.place[row]] == pytest.approx(before - without, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("cosine", [0.9, 0.99, 0.999, 0.9999])
def test_the_background_of_rows_with_any_mean_is_that_of_their_similarities(cosine):
    generator = np.random.default_rng(0)
    free = generator.normal(size=(600, 32))
    free[:, 0] = 0.0
    pair = PairedRows(*(np.sqrt(1 - cosine) * unit(free + noise) for noise in (0.0, 0.3 * np.roll(free, 1, axis=1))))
    pair.x[:, 0], pair.y[:, 0] = np.sqrt(cosine), np.sqrt(cosine)
    keys = np.sort(Stream.BACKGROUND_KEYS.generator(0).choice(600, 512, replace=False))
    similar = pair.x.astype(np.float64) @ pair.y.T.astype(np.float64)
    exact = [np.log(np.exp(sides[:, keys] / 0.05).mean(axis=1)) for sides in (similar, similar.T)]
    assert sample_background(pair, 0.05, 0).log_means == pytest.approx(np.array(exact), abs=0.005)


def test_two_pairs_across_two_batches_take_one_swap():
    near = np.array([2, 3, 0, 1], np.int32)
    gains = SwapGains(np.arange(5), near, np.ones((4, 4), np.float32), np.zeros((4, 2)))
    _, done = refine(np.arange(4), gains, 2)
    assert (done.swaps, done.sweeps) == (1, 2)
    assert (done.objective_before, done.objective_after) == pytest.approx((0, 0.5))


def test_near_duplicates_are_kept_apart_where_there_is_room():
    pair, generator = make_pair("related", 400), np.random.default_rng(0)
    sides = [
        np.concatenate([side, side[:40] + generator.normal(0, 0.01, side[:40].shape)]) for side in (pair.x, pair.y)
    ]
    together = []
    for apart_from in (None, 0.98):
        perm = plan(*sides, batch_size=20, graph="top-m", top=8, refine=True, apart_from=apart_from).perm
        batch = np.argsort(perm) // 20
        together.append(int((batch[:40] == batch[400:]).sum()))
    assert together[0] > 20
    assert together[1] <= 4
