"""The batch-softmax shufflings through `gcbs plan`."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Gcbs


@pytest.mark.parametrize("method", ["knn-groups", "clusters", "neighbours"])
def test_plans_beat_random_batches_and_say_how_they_were_made(gcbs: Gcbs, sample: Path, method: str) -> None:
    result = gcbs("plan", "x.npy", "y.npy", "-o", "p.npy", "--method", method, "--bsc-group-size", 6, "--json")
    assert result.exit_code == 0, result.stderr
    entry = json.loads(result.stdout)
    assert (entry["method"], entry["method_settings"]["bsc_group_size"]) == (method, 6)
    assert entry["method_settings"]["bsc_by"] == "both"
    assert sorted(np.load("p.npy").tolist()) == list(range(1500))
    report = json.loads(gcbs("report", "x.npy", "y.npy", "-p", "p.npy", "--json").stdout)
    assert report["gap"]["reduction"] > 0.01
    again = gcbs("plan", "x.npy", "y.npy", "-o", "q.npy", "--method", method, "--bsc-group-size", 6, "-q", "--seed", 1)
    assert again.exit_code == 0
    assert np.load("q.npy").tolist() != np.load("p.npy").tolist()


def test_words_come_from_a_text_file(gcbs: Gcbs, folder: Path) -> None:
    texts = ["sort the list" if i % 3 else "open a file" for i in range(300)]
    Path("t.txt").write_text("\n".join(texts))
    Path("t.jsonl").write_text("".join(json.dumps({"n": i, "doc": text}) + "\n" for i, text in enumerate(texts)))
    words = ["plan", "x.npy", "y.npy", "--method", "words", "--bsc-words", 2, "--bsc-group-size", 10, "-k", 20]
    result = gcbs(*words, "-o", "p.npy", "--text", "t.txt", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["method_settings"]["text"] == "t.txt"
    assert gcbs(*words, "-o", "q.npy", "--text", "t.jsonl", "--text-column", "doc", "-q").exit_code == 0
    order = np.load("p.npy")
    assert order.tolist() == np.load("q.npy").tolist()
    groups = [{texts[row] for row in group} for group in order.reshape(30, 10)]
    assert all(len(group) == 1 for group in groups)


@pytest.mark.parametrize(
    "words",
    [
        ["--method", "words"],
        ["--text", "t.txt"],
        ["--method", "words", "--text", "none.txt"],
        ["--method", "words", "--text", "short.txt"],
        ["--method", "words", "--text", "x.npy"],
        ["--method", "knn-groups", "--bsc-clusters", "3"],
    ],
    ids=" ".join,
)
def test_bad_options(gcbs: Gcbs, folder: Path, words: list[str]) -> None:
    Path("short.txt").write_text("one\ntwo\n")
    Path("t.txt").write_text("one\n" * 300)
    result = gcbs("plan", "x.npy", "y.npy", *words)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert not Path("perm.npy").exists()
