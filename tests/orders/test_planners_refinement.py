"""The swaps: exact gains against sums written out, an objective that only rises, the same bytes from any start."""

import numpy as np
import pytest
from unit_data import find_hard_pairs, make_pair, unit

from gcbs_cli.api import plan
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.orders import swaps
from gcbs_cli.orders.keeping_apart import NO_LABELS, keep_apart, order_of
from gcbs_cli.orders.refinement import refine, search
from gcbs_cli.orders.swap_gains import SwapGains, log_background, swap_gains
from gcbs_cli.orders.swaps import gain_of_swap, new_scratch, new_state
from gcbs_cli.orders.swaps import objective as sum_up
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.reports.losses import make_reports
from gcbs_cli.settings.plan import GraphSettings, PlanSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.randomness import Stream

ROWS, SIZE = 150, 16


@pytest.fixture(scope="module")
def gains():
    """Candidates of related rows, some too hard; the last batch is short."""
    pair = make_pair("related", ROWS)
    settings = PlanSettings(graph="top-m", top=6, fn_margin=0.9, fn_weight=0.7)
    backend = CpuBackend()
    threshold = find_threshold(pair.grid, GraphSettings(threshold=0.4), 0, backend)
    hard = find_hard_pairs(pair, settings, threshold, backend)
    assert hard.weighted is not None
    assert 20 < hard.weighted.apart.sum() < len(hard.weighted.apart) / 2
    return swap_gains(hard.weighted, pair, 0.1, SIZE, log_background(pair, 0.1, seed=0))


@pytest.fixture
def vast_gains():
    """At low temperatures one hard negative can raise a sum by e⁶⁰; its products pass 1e308 in a batch of 16."""
    generator = np.random.default_rng(0)
    shares = np.exp(generator.uniform(-60, 60, (ROWS, ROWS, 2))).astype(np.float32)
    rows, cols = np.nonzero(~np.eye(ROWS, dtype=bool))
    both = np.concatenate([shares[rows, cols], shares[cols, rows]], axis=1)
    return SwapGains(
        np.arange(0, ROWS * (ROWS - 1) + 1, ROWS - 1), cols.astype(np.int32), both, np.zeros(len(rows), np.float32)
    )


def objective(gains, batch):
    """Σ log(1 + Σ shares) − penalties, written out over matrices."""
    rows = len(batch)
    shares, penalties = np.zeros((2, rows, rows)), np.zeros((rows, rows))
    own = np.repeat(np.arange(rows), np.diff(gains.indptr))
    shares[:, own, gains.indices] = gains.shares[:, :2].T
    penalties[own, gains.indices] = gains.penalties
    together = batch[:, None] == batch[None, :]
    return float(np.log1p((shares * together).sum(axis=2)).sum() - (penalties * together).sum() / 2)


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


@pytest.mark.parametrize(("kind", "rise"), [("gains", 2.0), ("vast_gains", 1.1)])
def test_refinement_only_rises_and_says_what_a_recomputed_objective_says(kind, rise, request):
    gains = request.getfixturevalue(kind)
    perm = np.random.default_rng(3).permutation(ROWS)
    refined, done = refine(perm, gains, SIZE)
    assert sorted(refined.tolist()) == list(range(ROWS))
    assert done.objective_before == pytest.approx(objective(gains, np.argsort(perm) // SIZE) / (2 * ROWS))
    assert done.objective_after == pytest.approx(objective(gains, np.argsort(refined) // SIZE) / (2 * ROWS))
    assert done.objective_after > rise * done.objective_before
    for heat in (0.0, 0.5):
        swaps, objectives = search(order_of(perm, NO_LABELS, SIZE), gains, np.random.default_rng(0), heat)
        assert sum(swaps) > 0
        assert np.all(np.diff(objectives[1:]) >= -1e-12)
        assert objectives[-1] > rise * objectives[0]
        assert (len(swaps) > len(objectives) - 1) == (heat > 0)  # no objective is summed up after annealed ones


@pytest.mark.parametrize("kind", ["quantile", "top-m"])
def test_refinement_lowers_the_gap_and_penalties_lower_the_suspects(kind):
    pair = make_pair("related", 400)
    graph = {"graph": kind, "top": 8, "quantile": 0.98}

    def planned(**settings):
        return make_plan(pair, PlanSettings(batch_size=20, **graph, **settings)).perm

    orders = planned(), planned(refine=True), planned(refine=True, fn_margin=0.8)
    settings = ReportSettings(batch_sizes=(20,), trials=2, quantile=0.98, fn_margin=0.8)
    rcm, refined, careful = (make_reports(pair, perm, settings)[0] for perm in orders)
    assert refined.gap.reduction > rcm.gap.reduction + 0.05
    assert careful.false_negatives.suspected_pairs < refined.false_negatives.suspected_pairs / 2
    assert careful.gap.masked.reduction > 0.1


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


def test_pairs_count_by_themselves_where_their_worth_is_a_negative_penalty(gains):
    linear, worth = gains.linear(), np.log1p(gains.shares.astype(float)).sum(axis=1) - gains.penalties
    assert not linear.shares.any()
    assert -linear.penalties == pytest.approx(worth, abs=1e-5)


@pytest.mark.parametrize("kind", ["gains", "vast_gains"])
def test_what_rows_gain_by_joining_a_batch_or_staying_equals_sums_written_out(kind, request):
    gains, perm = request.getfixturevalue(kind), np.random.default_rng(1).permutation(ROWS)
    order, state, scratch = order_of(perm, NO_LABELS, SIZE), new_state(gains), new_scratch(ROWS, 10)
    if kind == "vast_gains":  # with nothing inside a batch no sum makes them small
        together = np.repeat(order.batch, np.diff(gains.indptr)) == order.batch[gains.indices]
        gains.shares[together] = 0.0
    before = sum_up(order, state)
    swaps.fill_own(order, state)
    for row in perm[:SIZE]:
        swaps._join(row, order, state, scratch)
    for row in perm[:SIZE]:
        swaps._gather(row, order.place, state, scratch.joins, scratch)
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
    assert log_background(pair, 0.05, 0) == pytest.approx(np.array(exact), abs=0.005)


def test_two_pairs_across_two_batches_take_one_swap():
    near = np.array([2, 3, 0, 1], np.int32)
    gains = SwapGains(np.arange(5), near, np.ones((4, 4), np.float32), np.zeros(4, np.float32))
    swaps, objectives = search(order_of(np.arange(4), NO_LABELS, 2), gains, np.random.default_rng(0), 0.0)
    assert swaps == [1, 0]
    assert objectives == pytest.approx([0, 8 * np.log(2), 8 * np.log(2)])


@pytest.mark.parametrize("method", ["rcm", "metis"])
@pytest.mark.parametrize("kind", ["related", "random"], ids=["strong-positives", "weak-positives"])
def test_near_duplicates_are_kept_apart_where_there_is_room(method, kind):
    if method == "metis":
        pytest.importorskip("pymetis")
    pair, generator = make_pair(kind, 400), np.random.default_rng(0)
    sides = [
        np.concatenate([side, side[:40] + generator.normal(0, 0.01, side[:40].shape)]) for side in (pair.x, pair.y)
    ]
    together = []
    for apart_from in (None, 0.98):
        perm = plan(*sides, batch_size=20, method=method, graph="top-m", top=8, refine=True, apart_from=apart_from).perm
        batch = np.argsort(perm) // 20
        together.append(int((batch[:40] == batch[400:]).sum()))
    assert together[0] > 20
    assert together[1] <= 1
