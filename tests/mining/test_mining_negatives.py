"""Mined negatives against a float64 sort, against sentence-transformers, and on data where ties decide."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from unit_data import exact_matrix, make_pair

from gcbs_cli.data.pairs import Positives
from gcbs_cli.mining.negatives import mine_negatives
from gcbs_cli.mining.run import mined_losses
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.settings.mine import MineSettings


def brute(similarity, ids, settings):
    """Every query's allowed (negative, rank) from hard to easy, straight from the settings' description."""
    absolute, relative = settings.absolute_margin or -np.inf, settings.relative_margin
    least = -np.inf if settings.min_score is None else settings.min_score
    most = np.inf if settings.max_score is None else settings.max_score
    positives = max(np.unique(ids, return_counts=True)[1])
    last = settings.last_rank(positives)
    for i, scores in enumerate(similarity):
        positive = min(scores[ids == ids[i]])
        limit = np.inf if relative is None else positive - abs(positive) * relative
        window = sorted(range(len(ids)), key=lambda j: (-scores[j], j))[: last + positives]
        others = [j for j in window if ids[j] != ids[i]]
        kept = [
            (j, rank)
            for rank, j in enumerate(others, 1)
            if least <= scores[j] <= min(most, limit) and scores[j] + absolute <= positive
        ]
        yield kept[settings.range_min : last]


OPTIONS = {
    "plain": {},
    "ranks": {"range_min": 3, "range_max": 9},
    "scores": {"min_score": -0.2, "max_score": 0.4},
    "absolute": {"absolute_margin": 0.1, "range_max": 40},
    "relative": {"relative_margin": 0.05, "range_min": 2},
    "all": {"absolute_margin": -0.1, "relative_margin": -0.2, "max_score": 0.9, "min_score": 0.0, "range_max": 60},
}


@pytest.mark.parametrize("kind", ["related", "duplicates", "hubs"])
@pytest.mark.parametrize("groups", [0, 30], ids=["own-positive", "several-positives"])
def test_top_negatives_are_the_first_of_the_brute_force(kind, groups, backend):
    pair, similarity = make_pair(kind, 90), exact_matrix(kind, 90)
    ids = np.random.default_rng(5).integers(groups, size=90) if groups else np.arange(90)
    for name, options in OPTIONS.items():
        settings = MineSettings(negatives=4, chunk_rows=17, batch_size=8, **options)
        found = mine_negatives(pair, Positives(ids), settings, backend)
        lists = enumerate(brute(similarity, ids, settings))
        expected = [(i, j, similarity[i, j], rank) for i, kept in lists for j, rank in kept[:4]]
        ours = zip(*(part.tolist() for part in (found.query, found.negative, found.score, found.rank)), strict=True)
        assert list(ours) == expected, name


def test_random_negatives_come_from_the_window_evenly_and_by_the_seed(backend):
    pair, similarity = make_pair("related", 90), exact_matrix("related", 90)
    windows = list(brute(similarity, np.arange(90), MineSettings(negatives=3, range_min=2, range_max=12)))
    counts = np.zeros(10)
    orders = set()
    for seed in (*range(29), 2**64 + 3):
        settings = MineSettings(negatives=3, range_min=2, range_max=12, sampling="random", seed=seed)
        found = mine_negatives(pair, Positives(np.arange(90)), settings, backend)
        assert np.bincount(found.query).tolist() == [3] * 90
        assert all((j, rank) in windows[i] for i, j, rank in zip(found.query, found.negative, found.rank, strict=True))
        counts += np.bincount(found.rank - 3, minlength=10)
        orders.add(found.negative.tobytes())
        other = mine_negatives(pair, Positives(np.arange(90)), settings.changed(chunk_rows=7), CpuBackend(1))
        assert other.negative.tobytes() == found.negative.tobytes()
    assert len(orders) == 30
    assert np.abs(counts - 810).max() < 5 * np.sqrt(810)


def precomputed(pair):
    """A model in sentence-transformers' sense that knows the embeddings of the texts "x0", "y0", …"""

    def encode(texts, **_):
        return np.stack([getattr(pair, text[0])[int(text[1:])] for text in texts])

    return SimpleNamespace(
        device=torch.device("cpu"),
        encode_document=encode,
        encode_query=encode,
        similarity=lambda a, b: torch.as_tensor(a) @ torch.as_tensor(b).T,
        similarity_pairwise=lambda a, b: (torch.as_tensor(a) * torch.as_tensor(b)).sum(1),
    )


def test_negatives_are_those_of_sentence_transformers():
    hard_negatives = pytest.importorskip("sentence_transformers.util.hard_negatives")
    datasets = pytest.importorskip("datasets")
    rows = 200
    pair = make_pair("related", rows)
    texts = {"anchor": [f"x{i}" for i in range(rows)], "positive": [f"y{i}" for i in range(rows)]}
    for options in OPTIONS.values():
        theirs = hard_negatives.mine_hard_negatives(
            datasets.Dataset.from_dict(texts),
            precomputed(pair),
            num_negatives=4,
            output_scores=True,
            verbose=False,
            **options,
        )
        expected = [(int(line["anchor"][1:]), int(line["negative"][1:])) for line in theirs]
        ours = mine_negatives(pair, Positives(np.arange(rows)), MineSettings(negatives=4, **options), CpuBackend())
        assert list(zip(ours.query.tolist(), ours.negative.tolist(), strict=True)) == expected
        assert np.abs(ours.score - [line["scores"][1] for line in theirs]).max() < 1e-6


@pytest.mark.parametrize("kind", ["related", "duplicates"])
def test_losses_are_those_of_loops(kind):
    pair, similarity = make_pair(kind, 61), exact_matrix(kind, 61)
    settings = MineSettings(negatives=3, batch_size=8, temperature=0.1, trials=2, max_score=0.6, seed=4)
    found = mine_negatives(pair, Positives(np.arange(61)), settings, CpuBackend())
    lists = {i: found.negative[found.query == i].tolist() for i in range(61)}
    losses = {"random": [], "own": [], "shared": []}
    for trial in range(2):
        order = np.random.default_rng([4, 0x7121A1, trial]).permutation(61).tolist()
        for start in range(0, 61, 8):
            batch = order[start : start + 8]
            shared = {j for i in batch for j in lists[i]}
            for i in batch:
                seen = {"random": set(batch), "own": {*batch, *lists[i]}, "shared": {*batch, *shared}}
                for name, keys in seen.items():
                    powers = [np.exp((similarity[i, j] - similarity[i, i]) / 0.1) for j in keys]
                    losses[name].append(np.log(sum(powers)))
    whole = np.log(np.exp(similarity / 0.1).sum(1)) - np.diag(similarity) / 0.1
    computed = mined_losses(pair, found, settings, CpuBackend())
    assert computed.global_ == pytest.approx(whole.mean(), abs=1e-5)
    for name, values in losses.items():
        assert getattr(computed, name) == pytest.approx(np.mean(values), abs=1e-5)
