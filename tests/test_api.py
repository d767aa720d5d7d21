"""The Python API makes the bytes and the figures of the command line."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from running import SAMPLE

from gcbs_cli import BadInput, mine, plan, report

IDS = np.arange(300) // 3
TEXTS = ["sort the list" if i % 3 else "open a file" if i % 2 else None for i in range(300)]


@pytest.fixture
def pair(folder):
    Path("ids.txt").write_text("\n".join(map(str, IDS)))
    Path("labels.txt").write_text("\n".join(str(int(i % 4 > 0)) for i in range(300)))
    Path("texts.txt").write_text("\n".join(text or "" for text in TEXTS))
    return np.load("x.npy"), np.load("y.npy")


PLANS = {
    "knn-groups": ("--method knn-groups --bsc-group-size 5 --bsc-by x --bsc-skip-identical", {
        "method": "knn-groups", "bsc_group_size": 5, "bsc_by": "x", "bsc_skip_identical": True,
    }),
    "words": ("--method words --bsc-words 2 --text texts.txt", {"method": "words", "bsc_words": 2, "texts": TEXTS}),
    "groups": ("--groups ids.txt --no-duplicates --refine --chunk-rows 64", {
        "groups": IDS, "no_duplicates": True, "refine": True, "chunk_rows": 64,
    }),
    "as many parts as it takes": ("--partitions auto", {"partitions": "auto"}),
    "parts with groups": ("--partitions 2 --groups ids.txt --graph top-m --shuffle-batches --max-memory 1G", {
        "partitions": 2, "groups": IDS, "graph": "top-m", "shuffle_batches": True, "max_memory": 2**30,
    }),
    "parts with texts": ("--partitions 3 --method words --text texts.txt", {
        "partitions": 3, "method": "words", "texts": TEXTS,
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_plans_are_those_of_the_command_line(gcbs, pair, name):
    words, settings = PLANS[name]
    ran = gcbs("plan", "x.npy", "y.npy", "-o", "p.npy", "-k", 16, "-q", *words.split())
    assert ran.exit_code == 0, ran.output
    assert plan(*pair, batch_size=16, **settings).perm.tobytes() == np.load("p.npy").tobytes()


REPORTS = {
    "--positives ids.txt": {"positives": IDS},
    "--labels labels.txt": {"labels": np.arange(300) % 4 > 0, "loss": "bsc"},
    "--loss triplet --loss-margin 0.4": {"loss": "triplet", "loss_margin": 0.4},
    "--loss infonce --queue 2 --queue-mode moco": {"loss": "infonce", "queue": 2, "queue_mode": "moco"},
    "--groups ids.txt": {"groups": IDS},
}


@pytest.mark.parametrize("words", REPORTS)
def test_reports_are_those_of_the_command_line(gcbs, pair, words):
    perm = np.random.default_rng(3).permutation(300)
    np.save("p.npy", perm)
    ran = gcbs("report", "x.npy", "y.npy", "-p", "p.npy", "-k", 16, "--trials", 3, "--json", *words.split())
    assert ran.exit_code == 0, ran.output
    ours = report(*pair, perm, batch_size=16, trials=3, **REPORTS[words]).model_dump(mode="json")
    theirs = json.loads(ran.stdout)
    assert {**ours, "timings": {}} == {**theirs, "timings": {}}


def test_negatives_are_those_of_the_command_line(gcbs, pair):
    words = ["-l", 2, "--range-max", 20, "--relative-margin", 0.05, "--sampling", "random", "--positives", "ids.txt"]
    ran = gcbs("mine", "x.npy", "y.npy", "-o", "n.parquet", "-k", 16, "--json", *words)
    assert ran.exit_code == 0, ran.output
    settings = {"negatives": 2, "range_max": 20, "relative_margin": 0.05, "sampling": "random", "positives": IDS}
    mined = mine(*pair, batch_size=16, **settings)
    table = pq.read_table("n.parquet")
    for column in ("query", "negative", "rank"):
        assert getattr(mined.negatives, column).tolist() == table[column].to_pylist()
    theirs = json.loads(ran.stdout)
    for part in ("mined", "short", "skipped", "scores", "loss", "gap"):
        assert mined.report.model_dump(mode="json")[part] == theirs[part]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x, y: plan(x, y, texts=["a"] * 300), "texts: need method words, found rcm"),
        (lambda x, y: plan(x, y, method="words"), "expected the rows' texts"),
        (lambda x, y: plan(x, y, method="words", texts=["a"]), "texts: expected one value for each"),
        (lambda x, y: plan(x, y, groups=[1, 2]), "groups: expected one value for each of the 300 rows"),
        (lambda x, y: report(x, y, groups=[1, 2]), "groups: expected one value for each of the 300 rows"),
        (lambda x, y: plan(x, y, groups=[None, "a", 3] * 100), "one group has 100 rows, and there are 5 batches"),
        (lambda x, y: plan(x, y, preset=[]), "preset .*: expected .train."),
        (lambda x, y: plan(x, y, bach_size=3), "bach_size: no such setting; did you mean batch_size?"),
        (lambda x, y: report(x, y, positives=[1, 2]), r"positives: expected one value for each of the 300 rows"),
        (lambda x, y: report(x, y, labels=[1] * 300, loss="symmetric"), "need the loss bsc"),
        (lambda x, y: mine(x, y, positives=[[1]] * 300), r"positives: expected one value"),
        (lambda x, y: mine(x, y, negatives=0), "negatives 0: expected at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(call, said):
    x, y = (np.load(SAMPLE / f"{side}.npy")[:300] for side in "xy")
    with pytest.raises(BadInput, match=said):
        call(x, y)


GROUPS = np.arange(300) // 3
KINDS = {
    "list": GROUPS.tolist(),
    "requires grad": torch.tensor(GROUPS, dtype=torch.float32, requires_grad=True),
    "bfloat16": torch.tensor(GROUPS).bfloat16(),
    "beyond 64 bits": [2**64 + int(group) for group in GROUPS],
    "masked": np.ma.array(GROUPS, mask=GROUPS > 50),
    "sparse": torch.tensor(GROUPS).to_sparse(),
    "ragged": [[1]] * 299 + [[1, 2]],
    "nested": [[1]] * 300,
    "a number": 3,
}


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_any_kind_are_taken_as_they_are_or_refused(kind):
    x, y = (np.load(SAMPLE / f"{side}.npy")[:300] for side in "xy")
    calls = [lambda ids: plan(x, y, groups=ids), lambda ids: mine(x, y, positives=ids), lambda ids: report(x, y, ids)]
    if kind in ("sparse", "ragged", "nested", "a number"):
        for call in calls:
            with pytest.raises(BadInput, match="expected (one value for each|a list or array)"):
                call(KINDS[kind])
        return
    with pytest.raises(BadInput, match="perm: "):
        calls[2](KINDS[kind])
    expected = GROUPS
    if kind == "masked":  # these rows are alone
        expected = np.where(GROUPS > 50, np.arange(300) + 1000, GROUPS)
    if kind == "bfloat16":
        expected = torch.tensor(GROUPS).bfloat16().float().numpy()
    assert calls[0](KINDS[kind]).perm.tolist() == calls[0](expected).perm.tolist()
