"""Each peer orders all rows and does what its paper says on planted clusters."""

import numpy as np
import pytest

pytest.importorskip("torch")

from peers.b3 import B3
from peers.common import nearest
from peers.kmeans import KMeans, cluster
from peers.mined import Mined
from peers.proximity import Proximity
from peers.spectral import Spectral
from peers.submodular import Submodular
from plans import PLANS, plan_named, plans_for, settings_of

CLUSTERS, EACH, DIM, K = 12, 32, 16, 16
PEERS = {
    "b3": lambda: B3(ranks=(4, 24), cluster_rows=K // 2),
    "k-means": lambda: KMeans(K, batches=2),
    "spectral": lambda: Spectral(K, 0.05),
    "proximity": lambda: Proximity(K, 200, 10),
    "submodular": lambda: Submodular(K, 0.05),
}


@pytest.fixture(scope="module")
def planted():
    """Rows of both sides around common centres, in random order, and the centre of each."""
    draws = np.random.default_rng(0)
    label = draws.permutation(np.repeat(np.arange(CLUSTERS), EACH))
    centres = 2.5 * np.linalg.qr(draws.normal(size=(DIM, DIM)))[0][:CLUSTERS]
    hidden = centres[label] + 0.4 * draws.normal(size=(len(label), DIM))
    sides = [hidden + 0.1 * draws.normal(size=hidden.shape) for _ in "xy"]
    return [(side / np.linalg.norm(side, axis=1, keepdims=True)).astype(np.float32) for side in sides], label


def _together(labels) -> float:
    """Share of the pairs in a batch that are of one cluster."""
    batches = labels.reshape(-1, K)
    return float((np.sum(batches[:, :, None] == batches[:, None, :]) / len(labels) - 1) / (K - 1))


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_orders_all_rows_and_gathers_what_is_alike(planted, name):
    (x, y), label = planted
    perm = PEERS[name]()(x, y, 0)
    assert np.array_equal(np.sort(perm), np.arange(len(x)))
    assert _together(label[perm]) > 3 / CLUSTERS
    assert np.array_equal(perm, PEERS[name]()(x, y, 0))
    assert not np.array_equal(perm, PEERS[name]()(x, y, 1))


def test_b3_finds_its_clusters_once_by_the_teacher_and_mixes_them_anew(planted):
    (x, y), _ = planted
    planner = B3(ranks=(4, 24), cluster_rows=8)
    planner(x, y, 0)
    parts = [set(part.tolist()) for part in planner._parts]
    later = planner(y[::-1].copy(), x, 7)
    assert np.array_equal(np.sort(later), np.arange(len(x)))
    starts = np.cumsum([0, *(len(part) for part in parts)])
    assert starts[-1] == len(x)
    mixed = next(part for part in parts if later[0] in part)
    assert set(later[: len(mixed)].tolist()) == mixed


def test_nearest_leaves_out_a_rows_own_answer_and_the_first_ranks(planted):
    (x, y), _ = planted
    scores = x @ y.T
    np.fill_diagonal(scores, -np.inf)
    expected = np.argsort(-scores, axis=1)[:, 2:6]
    assert np.array_equal(np.sort(nearest(x, y, 6, 2)), np.sort(expected))
    assert np.array_equal(Mined(1)(x, y, 0)[1][:, 0], scores.argmax(axis=1))


def test_k_means_batches_stay_within_a_cluster_but_for_the_last_ones(planted):
    (x, y), _ = planted
    labels = cluster(x, len(x) // (2 * K), np.random.default_rng(5))
    batches = labels[KMeans(K, batches=2)(x, y, 5)].reshape(-1, K)
    left = sum(np.bincount(labels) % K) // K
    assert all(len(set(batch)) == 1 for batch in batches[: len(batches) - left])


def test_the_greedy_takes_what_adds_most_and_nothing_for_what_contradicts(planted):
    x, y = (side[:40] for side in planted[0])
    planner = Submodular(6, 0.05)
    scores = (x @ y.T).astype(np.float64)

    def worth(rows: list[int]) -> float:
        """Sum over queries of log(1 + the share of the positive's term that their negatives have), both directions."""
        total = 0.0
        for i in range(len(x)):
            pairs = [s - scores[i, i] for j in rows if j != i for s in (scores[i, j], scores[j, i])]
            total += np.log1p(sum(np.exp(pair / 0.05) for pair in pairs if pair < 0))
        return total

    chosen = planner._choose(x, y).tolist()
    assert chosen[0] == 0
    for count in range(1, 6):
        best = max(worth([*chosen[:count], j]) for j in range(len(x)) if j not in chosen[:count])
        assert worth(chosen[: count + 1]) == pytest.approx(best, rel=1e-5)


def test_results_of_other_settings_are_told_apart():
    assert set(plans_for(PLANS, texts=False)) == set(PLANS) - {"words"}
    assert settings_of(plan_named("preset"))["fn_margin"] > 0
    assert settings_of(plan_named("b3")) == {}
    assert settings_of(plan_named("rcm")) != settings_of(plan_named("random"))
