"""`gcbs report` with the losses that need more than embeddings."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Gcbs


def _report(gcbs: Gcbs, *words: object) -> dict:
    result = gcbs("report", "x.npy", "y.npy", "-k", 16, "--trials", 2, "--json", *words)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_positives_and_labels_choose_the_loss(gcbs: Gcbs, folder: Path) -> None:
    np.save("ids.npy", np.arange(300) // 2)
    Path("labels.txt").write_text("\n".join(str(int(i % 4 != 0)) for i in range(300)))
    plain = _report(gcbs)
    several = _report(gcbs, "--positives", "ids.npy")
    labelled = _report(gcbs, "--labels", "labels.txt", "--loss", "bsc")
    assert (plain["loss_kind"], several["loss_kind"], labelled["loss_kind"]) == ("symmetric", "bsc", "bsc")
    assert several["loss"]["global"] > plain["loss"]["global"]  # neighbours in the file are no paraphrases
    x, y = (np.load(f"{side}.npy").astype(np.float64) for side in "xy")
    s = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (y / np.linalg.norm(y, axis=1, keepdims=True)).T / 0.05
    asks = np.arange(300) % 4 != 0
    rows = (np.log(np.exp(s).sum(1)) + np.log(np.exp(s).sum(0))) / 2 - np.diag(s)
    assert labelled["loss"]["global"] == pytest.approx(rows[asks].mean(), abs=1e-5)


def test_triplets(gcbs: Gcbs, folder: Path) -> None:
    gcbs("plan", "x.npy", "y.npy", "-o", "p.npy", "-k", 16, "-q")
    narrow, wide = (_report(gcbs, "-p", "p.npy", "--loss", "triplet", "--loss-margin", m) for m in (0.1, 0.5))
    assert narrow["loss"]["plan"] < wide["loss"]["plan"] < wide["loss"]["global"]
    assert narrow["gap"]["closed_share"] == pytest.approx(narrow["gap"]["reduction"])
    table = gcbs("report", "x.npy", "y.npy", "-p", "p.npy", "--loss", "triplet")
    assert table.exit_code == 0, table.stderr
    assert "nats" not in table.stdout
    assert max(map(len, table.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    "words",
    [
        ["--positives", "short.txt"],
        ["--labels", "none.txt"],
        ["--labels", "words.txt"],
        ["--positives", "ids.txt", "--loss", "simclr"],
        ["--loss", "triplet", "--loss-margin", "3"],
        ["--loss", "bsc", "--queue", "2"],
        ["--loss", "bsc", "--html", "r.html"],
    ],
    ids=" ".join,
)
def test_bad_options(gcbs: Gcbs, folder: Path, words: list[str]) -> None:
    Path("short.txt").write_text("1\n2\n")
    Path("ids.txt").write_text("1\n" * 300)
    Path("words.txt").write_text("maybe\n" * 300)
    result = gcbs("report", "x.npy", "y.npy", *words)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert not Path("r.html").exists()
