"""compare makes the plans that `gcbs plan` makes; with --train a trial ranks as it says."""

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from unit_data import make_pair, unit

from gcbs_cli import report
from gcbs_cli.comparison import trial
from gcbs_cli.comparison.heads import Heads
from gcbs_cli.comparison.trial import Trial, TrialRun, TrialSettings, gain, judge, split_rows
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.row_values import ids_of
from gcbs_cli.reports.batch_loss import batch_loss
from gcbs_cli.settings.plan import PlanSettings


def test_compare_shows_every_method_and_the_preset_by_falling_learnable_share(gcbs, folder):
    words = ("compare", "x.npy", "y.npy", "--methods", "random,rcm,train,rcm+refine", "-k", 16, "--trials", 2)
    found = json.loads(gcbs(*words, "--json").stdout)
    shares = {line["method"]: line["learnable_share"]["plan"] for line in found["methods"]}
    assert set(shares) == {"random", "rcm", "rcm+refine", "--preset train"}
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    *table, _, said, command = gcbs(*words, "--html", "page.html").stdout.splitlines()
    assert max(map(len, table)) <= 80
    page = Path("page.html").read_text()
    assert re.findall(r'<th scope="row".*?>(.*?)</th>', page) == list(shares)
    assert re.findall(r'<span class="number">(.*?)</span>', page) == [f"{value:.1%}" for value in shares.values()]
    assert page.count(f"<code>{command}</code>") == 1
    assert "--train" in said
    assert command == found["command"]
    assert gcbs(*shlex.split(command)[1:]).exit_code == 0


def test_compare_says_what_is_not_installed(gcbs, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    result = gcbs("compare", "x.npy", "y.npy", "-k", 16, "--trials", 1)
    assert result.exit_code == 0, result.output
    assert "metis left out: --method metis: pymetis is not installed" in " ".join(result.stderr.split())
    assert "metis" not in result.stdout
    monkeypatch.delitem(sys.modules, "gcbs_cli.comparison.heads", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    result = gcbs("compare", "x.npy", "y.npy", "-k", 16, "--train")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("--train: torch is not installed; run: pip install torch\n")


def test_compare_makes_the_plans_that_the_same_options_make(gcbs, folder):
    Path("t.txt").write_text("\n".join(["sort the list" if i % 3 else "open a file" for i in range(300)]))
    Path("g.txt").write_text("\n".join(str(i // 2) for i in range(300)))
    shared = ("-k", 16, "--groups", "g.txt", "--no-duplicates", "--per-row", 4, "--group-size", 8)
    own = {
        "rcm": (),
        "words": ("--text", "t.txt", "--bsc-group-size", 4),
        "neighbours": ("--bsc-by", "x", "--bsc-group-size", 4),
    }
    asked = ("--text", "t.txt", "--bsc-by", "x", "--bsc-group-size", 4)
    result = gcbs("compare", "x.npy", "y.npy", "--methods", ",".join(own), *shared, *asked, "--trials", 2, "--json")
    for line in json.loads(result.stdout)["methods"]:
        words = ("--method", line["method"], *shared, *own[line["method"]])
        assert gcbs("plan", "x.npy", "y.npy", "-f", *words).exit_code == 0
        report = ("report", "x.npy", "y.npy", "-p", "perm.npy", "--json", "--per-row", 4, "--trials", 2)
        shown = json.loads(gcbs(*report).stdout)
        assert line["gap"]["reduction"] == pytest.approx(shown["gap"]["reduction"], abs=1e-12)
        assert line["false_negatives"]["suspected_pairs"] == shown["false_negatives"]["suspected_pairs"]


TRAINED = {
    "compare": ("compare", "--train", "--no-duplicates", "--no-normalize", "-M", "rcm,train"),
    "compare with texts": ("compare", "--train", "--text", "t.csv", "--text-column", "text"),
    "compare around the preset": ("compare", "--train", "--around"),
}


@pytest.mark.parametrize("words", TRAINED.values(), ids=TRAINED)
def test_training_prints_a_line_a_plan_the_verdict_and_a_command_that_works(gcbs, folder, monkeypatch, words):
    monkeypatch.setattr(trial, "EPOCHS", 1)
    monkeypatch.setattr(trial, "LEAST_TRAINED", 100)
    monkeypatch.setattr(trial, "LEAST_BATCHES", 2)
    monkeypatch.setattr(trial, "CERTAIN", -100.0)  # any gain counts
    Path("t.csv").write_text("\n".join(["n,text", *(f"{i},{'sort it' if i % 3 else 'open it'}" for i in range(300))]))
    Path("g.txt").write_text("\n".join(str(i // 2) for i in range(300)))
    given = (words[0], "x.npy", "y.npy", *words[1:], "-k", 16, "--groups", "g.txt", "--budget", "0.1")
    found = json.loads(gcbs(*given, "--html", "page.html", "--json").stdout)
    plans = [line["method"] for line in found["methods"]]
    gains = [line["gain"] for line in found["methods"]]
    assert gains == sorted(gains, reverse=True)
    page = Path("page.html").read_text()
    assert re.findall(r'<th scope="row".*?>(.*?)</th>', page) == plans
    assert f"Take {found['plan']}." in page
    assert len(plans) == (7 if "--around" in words else 3) + ("--text" in words)
    assert found["trial"] | {"train_rows": 100, "queries": 60, "epochs": 1, "seeds": 2} == found["trial"]
    (random,) = (line for line in found["methods"] if line["method"] == "random")
    for line in found["methods"]:
        by_seed = [ours["mrr"] - theirs["mrr"] for ours, theirs in zip(line["runs"], random["runs"], strict=True)]
        assert line["gain"] == pytest.approx(sum(by_seed) / 2)
    assert found["verdict"].startswith(f"{found['plan']}: ")
    assert found["verdict"].endswith("MRR over random: planning pays")
    (chosen,) = (line for line in found["methods"] if line["method"] == found["plan"])
    assert all(word in found["command"] for word in (chosen["options"], "--groups g.txt"))
    assert gcbs(*shlex.split(found["command"])[1:]).exit_code == 0
    done = gcbs(*given)
    assert "the budget of 0.1 s is too short for 2 seeds" in done.stderr
    shown = done.stdout.splitlines()
    assert any(plan in line for line in shown for plan in plans)
    assert shown[-1].endswith("-o perm.npy")


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
    ids = np.where(draws.random(400) < 0.5, draws.integers(100, size=400), -1)  # −1 is no id
    trial = Trial(pair, TrialSettings(batch_size=16), groups=ids_of(ids) if grouped else None)
    ranks = Heads(pair, "cpu", 1e-3).ranks(*trial._test)
    for query, rank in zip(trial.split.test, ranks, strict=True):
        alike = which[0] == which[0][query]
        if grouped:
            alike |= (ids == ids[query]) & (ids >= 0)
        held = np.isin(np.arange(400), trial.split.candidates)
        right = set(which[1][alike & held])
        scores = {answer: pair.x[query] @ make_pair("random", 80, 1).x[answer] for answer in set(which[1][held])}
        best = max(scores[answer] for answer in right)
        assert rank == 1 + sum(score > best for answer, score in scores.items() if answer not in right)


@pytest.mark.parametrize("loss", ["infonce", "symmetric"])
def test_the_loss_of_a_batch_is_the_training_loss_of_a_report(loss):
    pair = make_pair("related", 64)
    found = float(batch_loss(torch.from_numpy(pair.x), torch.from_numpy(pair.y), 0.1, loss))
    expected = report(pair.x, pair.y, np.arange(64), batch_size=64, temperature=0.1, loss=loss, trials=1).loss.plan
    assert found == pytest.approx(expected, rel=1e-5)
    extra = torch.from_numpy(pair.y[:3])
    x, y = pair.x.astype(np.float64), np.concatenate([pair.y, pair.y[:3]]).astype(np.float64)
    logits = x @ y.T / 0.1
    away = np.log(np.exp(logits).sum(1)) - logits.diagonal()
    back = np.log(np.exp(logits[:, :64]).sum(0)) - logits.diagonal()
    with_more = batch_loss(torch.from_numpy(pair.x), torch.cat([torch.from_numpy(pair.y), extra]), 0.1, loss)
    expected = away.mean() if loss == "infonce" else (away.mean() + back.mean()) / 2
    assert float(with_more) == pytest.approx(expected, rel=1e-5)


def _shuffled(x, y, seed):
    """Random batches by another name."""
    return np.random.default_rng(seed + 99).permutation(len(x))


PLANS = {
    "random": PlanSettings(method="random", batch_size=32),
    "rcm": PlanSettings(batch_size=32),
    "shuffled": _shuffled,
}


def test_a_plan_that_helps_is_told_from_one_that_does_not(monkeypatch):
    monkeypatch.setattr(trial, "LEARNING_RATE", 3e-3 * 2**0.5)  # 3e-3 for batches of 32
    settings = TrialSettings(batch_size=32, seeds=(0, 1, 2), epochs=3)
    runs, _ = Trial(_clustered(), settings).decide(PLANS, None)
    assert [(run.plan, run.seed) for run in runs] == [(plan, seed) for seed in (0, 1, 2) for plan in PLANS]
    for run in runs:
        assert run.validation[0] == runs[0].validation[0]
        assert run.mrr == pytest.approx(100 * run.reciprocal_ranks.mean())
    by_hand = [ours.mrr - theirs.mrr for theirs, ours in zip(runs[::3], runs[1::3], strict=True)]
    found, best = judge(runs), gain(runs, "rcm")
    assert found.plan == "rcm"
    assert (best.mean, best.std) == pytest.approx((np.mean(by_hand), np.std(by_hand, ddof=1)))
    assert best.mean > 3
    assert found.sentence.endswith(f"{best.std:.1f} MRR over random: planning pays")
    without = judge([run for run in runs if run.plan != "rcm"])
    assert without.plan is None
    assert "no difference beyond noise" in without.sentence


def _run(plan, seed, *ranks):
    return TrialRun(plan, seed, [0.0, 1.0], 1 / np.array(ranks), 0.0, 0.0)


def test_the_preferred_plan_stands_unless_another_is_better_beyond_noise():
    alike = [_run(plan, seed, *ranks) for seed in range(3) for plan, ranks in SCORES.items()]
    assert judge(alike).plan == "high"
    assert judge(alike, "near").plan == "near"
    assert judge(alike, "low").plan == "high"


SCORES = {"random": (4, 4, 4, 4), "high": (1, 1, 1, 2), "near": (1, 2, 1, 1), "low": (3, 3, 3, 3)}


def test_the_budget_decides_how_many_rows_and_seeds_and_torch_keeps_its_threads():
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    trial = Trial(make_pair("related", 6000), TrialSettings(budget=0.05, epochs=1, seeds=range(20)))
    runs, _ = trial.decide({"random": PlanSettings(method="random"), "shuffled": _shuffled}, None)
    assert torch.get_num_threads() == 3
    torch.set_num_threads(threads)
    assert len(trial.split.train) == 2048
    assert 2 <= len(runs) // 2 < 20
