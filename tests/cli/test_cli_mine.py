"""`gcbs mine` through the command line, on real embeddings."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Gcbs, similarities


def _hardest(count: int) -> list[tuple[int, int]]:
    s = similarities()
    np.fill_diagonal(s, -2)
    order = np.argsort(-s, axis=1)[:, :count]
    return [(i, int(j)) for i, keys in enumerate(order) for j in keys]


def test_every_format_holds_each_rows_hardest(gcbs: Gcbs, folder: Path) -> None:
    for name in ("n.parquet", "n.csv", "n.jsonl"):
        result = gcbs("mine", "x.npy", "y.npy", "-o", name, "-l", 4)
        assert result.exit_code == 0, result.stderr
        assert max(map(len, result.stdout.splitlines())) <= 80
    table = pq.read_table("n.parquet")
    assert [str(field.type) for field in table.schema] == ["int64", "int64", "double", "int32"]
    lines = table.to_pylist()
    assert [(line["query"], line["negative"]) for line in lines] == _hardest(4)
    assert [line["rank"] for line in lines] == [1, 2, 3, 4] * 300
    assert [json.loads(line) for line in Path("n.jsonl").read_text().splitlines()] == lines
    to_stdout = gcbs("mine", "x.npy", "y.npy", "-o", "-", "-l", 4)
    assert to_stdout.stdout == Path("n.jsonl").read_text()
    assert "L_global" in to_stdout.stderr
    head, *rest = Path("n.csv").read_text().splitlines()
    assert head == "query,negative,score,rank"
    assert [tuple(map(float, line.split(","))) for line in rest] == [tuple(line.values()) for line in lines]


def test_json_says_what_the_loss_would_be(gcbs: Gcbs, folder: Path) -> None:
    words = ["x.npy", "y.npy", "--json", "-k", 16, "-f", "-o", "n.parquet"]
    one = json.loads(gcbs("mine", *words, "-l", 1).stdout)
    many = json.loads(gcbs("mine", *words, "-l", 8).stdout)
    report = json.loads(gcbs("report", "x.npy", "y.npy", "-k", 16, "--loss", "infonce", "--json").stdout)
    assert one["loss"]["global"] == pytest.approx(report["loss"]["global"], abs=1e-5)
    assert one["loss"]["random"] == pytest.approx(report["loss"]["random_mean"], abs=0.05)
    assert one["loss"]["random"] < one["loss"]["own"] < one["loss"]["shared"] < one["loss"]["global"]
    assert one["loss"]["own"] < many["loss"]["own"] < many["loss"]["global"]
    assert one["gap"]["own_reduction"] == pytest.approx(1 - one["gap"]["own"] / one["gap"]["random"])
    assert (one["mined"], many["mined"], one["short"]) == (300, 2400, 0)


def test_one_batch_of_all_rows_leaves_no_gap_and_a_score_no_negatives(gcbs: Gcbs, folder: Path) -> None:
    words = ("mine", "x.npy", "y.npy", "-o", "n.csv", "-f", "-k", 300, "--max-score", -0.9)
    result = gcbs(*words, "--json")
    assert "300 rows have fewer than 3 negatives" in result.stderr
    found = json.loads(result.stdout)
    assert (found["mined"], found["scores"]["negative"]) == (0, None)
    assert found["gap"]["own_reduction"] is found["gap"]["shared_reduction"] is None
    assert "no gap to close" in gcbs(*words).stdout
