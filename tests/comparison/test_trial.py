"""A trial ranks as it says, keeps what it asks out of training, and tells a plan that helps from one that does not."""

import numpy as np
import pytest
import torch
from unit_data import make_pair, unit

from gcbs_cli import report
from gcbs_cli.comparison.heads import Heads, symmetric_loss
from gcbs_cli.comparison.trial import Trial, TrialRun, TrialSettings, gain, judge, split_rows
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.settings.plan import PlanSettings

ROWS, CLUSTERS = 1600, 50
CLUSTER = np.arange(ROWS) % CLUSTERS


def _clustered():
    """The clusters are alike on both sides; which row it is within its cluster, y says turned about."""
    draws = np.random.default_rng(0)
    centres, detail = draws.normal(size=(CLUSTERS, 12))[CLUSTER], draws.normal(size=(ROWS, 12))
    turn = np.linalg.qr(draws.normal(size=(12, 12)))[0]
    return PairedRows(*(unit(np.hstack([centres, 0.5 * side])) for side in (detail, detail @ turn)))


def test_rows_that_share_an_answer_are_trained_on_together_or_held_out_together():
    draws = np.random.default_rng(1)
    few, many = draws.integers(400, size=1000), np.repeat([0, 1], 500)
    split = split_rows([few, np.arange(1000)], 600)
    assert not set(few[split.train]) & set(few[split.candidates])
    assert not set(few[split.validation]) & set(few[split.test])
    parts = np.concatenate([split.validation, split.test])
    assert set(parts) <= set(split.candidates)
    assert len(set(parts)) == len(parts)
    assert len(split.train) == pytest.approx(600, abs=20)
    assert len(split_rows([many], 600).train) == pytest.approx(600, abs=1)  # too many to be kept together


@pytest.mark.parametrize("grouped", [False, True])
def test_a_rank_is_that_of_the_best_right_answer_among_the_wrong_ones(grouped):
    draws = np.random.default_rng(2)
    which = draws.integers(80, size=(2, 400))  # equal x and equal y, independently
    pair = PairedRows(*(make_pair("random", 80, seed).x[numbers] for seed, numbers in enumerate(which)))
    groups = draws.integers(100, size=400) if grouped else None
    trial = Trial(pair, TrialSettings(batch_size=16), groups=groups)
    ranks = Heads(pair, "cpu", 1e-3).ranks(*trial._tested)
    for query, rank in zip(trial.split.test, ranks, strict=True):
        alike = which[0] == which[0][query]
        if groups is not None:
            alike |= groups == groups[query]
        held = np.isin(np.arange(400), trial.split.candidates)
        right = set(which[1][alike & held])
        scores = {answer: pair.x[query] @ make_pair("random", 80, 1).x[answer] for answer in set(which[1][held])}
        best = max(scores[answer] for answer in right)
        assert rank == 1 + sum(score > best for answer, score in scores.items() if answer not in right)


def test_the_loss_of_the_heads_is_the_training_loss_of_a_report():
    pair = make_pair("related", 64)
    found = float(symmetric_loss(torch.from_numpy(pair.x), torch.from_numpy(pair.y), 0.1))
    expected = report(pair.x, pair.y, np.arange(64), batch_size=64, temperature=0.1, trials=1).loss.plan
    assert found == pytest.approx(expected, rel=1e-5)
    extra = torch.from_numpy(pair.y[:3])
    x, y = pair.x.astype(np.float64), np.concatenate([pair.y, pair.y[:3]]).astype(np.float64)
    logits = x @ y.T / 0.1
    away = np.log(np.exp(logits).sum(1)) - logits.diagonal()
    back = np.log(np.exp(logits[:, :64]).sum(0)) - logits.diagonal()
    with_more = symmetric_loss(torch.from_numpy(pair.x), torch.cat([torch.from_numpy(pair.y), extra]), 0.1)
    assert float(with_more) == pytest.approx((away.mean() + back.mean()) / 2, rel=1e-5)


def _shuffled(x, y, seed):
    """Random batches by another name."""
    return np.random.default_rng(seed + 99).permutation(len(x))


PLANS = {
    "random": PlanSettings(method="random", batch_size=32),
    "rcm": PlanSettings(batch_size=32),
    "shuffled": _shuffled,
}


def test_a_plan_that_helps_is_told_from_one_that_does_not():
    settings = TrialSettings(batch_size=32, seeds=(0, 1, 2), epochs=3, learning_rate=3e-3)
    runs = list(Trial(_clustered(), settings).run(PLANS))
    assert [(run.plan, run.seed) for run in runs] == [(plan, seed) for seed in (0, 1, 2) for plan in PLANS]
    for run in runs:
        assert run.validation[0] == runs[0].validation[0]
        assert run.epoch == np.argmax(run.validation)
        assert run.mrr == pytest.approx(100 * run.reciprocal_ranks.mean())
        assert run.recall[1] == np.mean(run.reciprocal_ranks == 1) <= run.recall[10]
    by_hand = [ours.mrr - theirs.mrr for theirs, ours in zip(runs[::3], runs[1::3], strict=True)]
    found = judge(runs)
    assert (found.plan, found.gain) == ("rcm", gain(runs, "rcm"))
    assert (found.gain.mean, found.gain.std) == pytest.approx((np.mean(by_hand), np.std(by_hand, ddof=1)))
    assert found.gain.mean > 3
    assert found.sentence.endswith(f"{found.gain.std:.1f} MRR over random: plan")
    without = judge([run for run in runs if run.plan != "rcm"])
    assert without.plan is None
    assert "no difference beyond noise" in without.sentence


def _run(plan, seed, *ranks):
    return TrialRun(plan, seed, [0.0, 1.0], 1 / np.array(ranks), 0.0, 0.0)


def test_the_preferred_plan_stands_unless_another_is_better_beyond_noise():
    alike = [_run(plan, seed, *ranks) for seed in range(3) for plan, ranks in SCORES.items()]
    assert judge(alike).best == "high"
    assert judge(alike).final
    assert judge(alike, "near").best == "near"
    assert judge(alike, "low").best == "high"
    unsteady = [_run(plan, seed, *[1 + 9 * seed if plan == "high" else 4] * 4) for seed in range(3) for plan in SCORES]
    assert not judge(unsteady).final


SCORES = {"random": (4, 4, 4, 4), "high": (1, 1, 1, 2), "near": (1, 2, 1, 1), "low": (3, 3, 3, 3)}


def test_the_budget_decides_how_many_rows_and_seeds():
    trial = Trial(make_pair("related", 6000), TrialSettings(budget=0.05, epochs=1, seeds=range(20)))
    runs = list(trial.run({"random": PlanSettings(method="random")}))
    assert len(trial.split.train) == 2048
    assert 2 <= len(runs) < 20
