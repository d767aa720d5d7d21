from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import adapters
import torch
from contrastive import reciprocal_rank
from pair_data import load_embeddings, places_in, split_rows
from plan_choices import CHOICES, Planned
from run_records import read_records
from torch import from_numpy

import gcbs_cli

pytestmark = pytest.mark.slow
ROWS, DIM = 400, 8


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Pairs that are the same vector seen through two linear maps: heads can learn to undo them."""
    draws = np.random.default_rng(0)
    hidden = draws.normal(size=(ROWS, DIM))
    for name in "xy":
        np.save(tmp_path / f"{name}.npy", hidden @ (np.eye(DIM) + 0.4 * draws.normal(size=(DIM, DIM))))
    return tmp_path


def _run(data: Path, *more: str) -> None:
    sizes = ["--train-rows", "200", "--queries", "50", "--epochs", "4", "--learning-rate", "0.01"]
    adapters.main(["run", str(data), "--out", str(data / "out.jsonl"), *sizes, *more])


def test_heads_start_as_the_identity_and_learn(data, capsys):
    _run(data, "--methods", "random", "rcm", "--seeds", "0", "1", "--test")
    records = read_records(data / "out.jsonl")
    assert [f"{record['name']} {record['seed']}" for record in records] == ["random 0", "rcm 0", "random 1", "rcm 1"]
    x, y = load_embeddings(data)
    split = split_rows(ROWS, 200, 50, seed=0)
    answers = from_numpy(places_in(split.test, split.candidates))
    untrained = 100 * reciprocal_rank(from_numpy(x[split.test]), from_numpy(y[split.candidates]), answers)
    for record in records:
        assert len(record["epochs"]) == 5
        assert record["epochs"][-1]["validation"] > record["epochs"][0]["validation"] + 10
    assert records[0]["epochs"][0]["test"] == pytest.approx(untrained, abs=1e-3)
    assert records[0]["epochs"][0] == records[1]["epochs"][0]
    assert records[1]["epochs"][1]["report"]["reduction"] > records[0]["epochs"][1]["report"]["reduction"]
    capsys.readouterr()
    adapters.main(["table", str(data / "out.jsonl")])
    shown = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in shown[2:]] == ["| random", "| rcm"]


def test_the_test_queries_stay_unused_unless_asked_for_and_no_run_is_done_twice(data):
    for _ in range(2):
        _run(data, "--methods", "random", "--seeds", "0", "--report-seeds")
    (record,) = read_records(data / "out.jsonl")
    assert all("test" not in epoch for epoch in record["epochs"])


def test_the_same_seed_gives_the_same_run(data):
    x, y = adapters.load_embeddings(data)
    training = adapters.Training(train_rows=200, queries=50, epochs=2)
    choice = adapters.read_choice("rcm")[1]
    first, again, other = (adapters.train_once(x, y, choice, training, seed) for seed in (3, 3, 4))
    figures = [[epoch["validation"] for epoch in record["epochs"]] for record in (first, again, other)]
    assert figures[0] == figures[1] != figures[2]


def test_the_bound_is_the_loss_over_all_training_rows(data):
    x, y = adapters.load_embeddings(data)
    split = adapters.split_rows(len(x), 200, 50, 0)
    own = (adapters.ResidualHead(DIM) for _ in "xy")
    heads = adapters.Heads(*own, torch.from_numpy(x), torch.from_numpy(y))
    found = adapters._loss_over_all(heads, split, np.arange(200), 0.05).item()
    left, right = (side.detach().numpy() for side in heads.outputs(split.train))
    assert found == pytest.approx(gcbs_cli.report(left, right, trials=2, temperature=0.05).loss.global_, rel=1e-5)


def test_pairs_suspected_among_all_rows_are_those_of_the_library(data):
    draws = np.random.default_rng(5)
    hidden = draws.normal(size=(60, DIM))
    sides = [hidden + 0.3 * draws.normal(size=hidden.shape) for _ in "xy"]
    now = [(side / np.linalg.norm(side, axis=1, keepdims=True)).astype(np.float32) for side in sides]
    choice = CHOICES["all-rows, masked"]
    planned = Planned(np.arange(60), 0.0, 0.3)
    batch = np.array([7, 3, 40])
    found = adapters._suspected_among_all([torch.from_numpy(side) for side in now], batch, choice, planned)
    whole = adapters._suspected_among_all([torch.from_numpy(side) for side in now], np.arange(60), choice, planned)
    assert torch.equal(found, whole[batch])
    report = gcbs_cli.report(*now, np.arange(60), batch_size=60, threshold=0.3, fn_margin=0.95, trials=2)
    assert int(whole.sum()) == 2 * report.false_negatives.suspected_pairs > 0
