"""The benchmarks run and print their tables; what they measure is not looked at, but what each peer does is."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import encoders
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import table
import trial
from corpora import groups_of
from peers.b3 import B3
from peers.kmeans import KMeans
from peers.proximity import Proximity
from peers.spectral import Spectral
from peers.submodular import Submodular
from records import gains, read_records, spread
from running import LONGEST_WAIT


@pytest.fixture
def data(tmp_path):
    """Pairs of two linear maps of the same vector, with texts, as a corpus folder."""
    draws = np.random.default_rng(0)
    hidden = draws.normal(size=(700, 8))
    folder = tmp_path / "phrases"
    folder.mkdir()
    for name in "xy":
        np.save(folder / f"{name}.npy", hidden @ (np.eye(8) + 0.4 * draws.normal(size=(8, 8))))
    words = draws.integers(60, size=(700, 3))
    texts = [[" ".join(f"{side}{word}" for word in row) for row in words] for side in ("wort", "word")]
    pq.write_table(pa.table({"doc": texts[0], "code": texts[1]}), folder / "texts.parquet")
    np.save(folder / "groups.npy", groups_of(*texts))
    return tmp_path


def test_a_stopped_trial_goes_on_and_its_table_has_each_plan(data, capsys):
    out = data / "out.jsonl"
    asked = [str(data), "--out", str(out), "--corpora", "phrases", "--seeds", "1", "2", "--plans", "random", "rcm"]
    trial.main(asked)
    first = out.read_text()
    trial.main([*asked, "mined 1", trial.ALL_ROWS])
    assert out.read_text().startswith(first)
    records = read_records(out)
    assert [(run["plan"], run["seed"]) for run in records[:4]] == [("random", 1), ("rcm", 1), ("random", 2), ("rcm", 2)]
    assert len(records) == 8
    for run in records:
        assert len(run["validation"]) == 6
        assert run["validation"][run["epoch"]] == max(run["validation"])
        assert run["train_rows"] + run["candidates"] == 700
    capsys.readouterr()
    table.main(["--trials", str(out), "--encoders", str(data / "none.jsonl")])
    lines = capsys.readouterr().out.splitlines()
    shown = {line.split(" | ")[0].strip("| ") for line in lines}
    assert {"rcm", "mined 1", "random (its MRR)"} <= shown
    assert f"| {spread(gains(records, 'phrases', 'rcm'))} |" in "\n".join(lines)


def test_an_encoder_from_scratch_learns_to_translate(data, monkeypatch):
    monkeypatch.setitem(encoders.ENCODERS, "phrases", replace(encoders.ENCODERS["phrases"], queries=60))
    out = data / "encoders.jsonl"
    encoders.main(
        [str(data), "--out", str(out), "--corpora", "phrases", "--plans", "random", "mined 1", "--seeds", "1"]
    )
    for run in read_records(out):
        assert run["mrr"] > run["validation"][0] + 10
        assert run["train_rows"] == 580
    assert "not stated" in table.encoder_table(read_records(out), [])


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


def _together(labels):
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


BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SAMPLE = BENCHMARKS.parent / "sample_data"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"compare_tools.py {SAMPLE} --rounds 1 --only imports pseudo", ["GCBS's pseudo-code", "gcbs"]),
        ("scaling.py --rows 200 500 --dim 8 --per-row 20 --device cpu", ["| 200 ", "| 500 ", "Time grows as N^"]),
        (f"refinement.py {SAMPLE} --methods rcm -k 16 --threads 1 2 --rounds 1", ["| rcm | 2 "]),
        (f"ablations.py quantile {SAMPLE} --values 0.99 0.999", ["| 0.99 |", "| 0.999 |"]),
        (f"ablations.py batch-size {SAMPLE} --values 16 64", ["| 16 |", "| 64 |"]),
        (f"ablations.py rows {SAMPLE} --values 500 1500 --plan refine=true graph=top-m", ["| 500 |", "| 1,500 |"]),
    ],
    ids=lambda value: value.split()[0] if isinstance(value, str) else "",
)
def test_a_script_prints_its_table(script, said, tmp_path):
    name, *arguments = script.split()
    command = [sys.executable, str(BENCHMARKS / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_WAIT, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in said:
        assert words in done.stdout


def test_ranks_count_every_right_answer():
    x, y = np.eye(3, dtype=np.float32), np.array([[0.5, 0, 0], [0.9, 0.8, 0], [0, 0.9, 0.1]], np.float32)
    assert encoders.mean_reciprocal_rank(x, y, np.array([0, 1, 2])) == pytest.approx(100 * (1 / 2 + 1 / 2 + 1) / 3)
    assert encoders.mean_reciprocal_rank(x, y, np.array([0, 0, 2])) == pytest.approx(100 * (1 + 1 / 2 + 1) / 3)
