"""`gcbs report`, `check` and `history` through the command line, on real embeddings and plans."""

import json
import shutil
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from running import SAMPLE

from gcbs_cli.comparison.history import recurring_pairs
from tests.cli.conftest import entry_of


def test_equal_rows_have_the_threshold_of_their_plan(gcbs, folder):
    rows = np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32)
    np.save("self.npy", np.tile(rows, (2, 1)))
    words = ("self.npy", "self.npy", "-o", "perm.npy", "-k", 8, "-q", "--per-row", 0.1)
    assert gcbs("plan", *words).exit_code == 0
    entry = entry_of()
    assert entry["quantile"]["threshold"] > 1.0  # whole numbers name a row's product with itself with their error
    found = json.loads(gcbs("report", "self.npy", "self.npy", "-p", "perm.npy", "--json").stdout)
    assert found["graph"]["threshold"] == pytest.approx(entry["quantile"]["threshold"], abs=1e-6)
    assert found["graph"]["edges"] == entry["graph"]["edges"]


def test_seven_lines_and_all_figures_on_request_in_80_columns(gcbs, sample):
    gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-q")
    words = ("report", "x.npy", "y.npy", "-p", "perm.npy")
    result, full, several = gcbs(*words), gcbs(*words, "--full"), gcbs(*words, "-k", 16, "-k", 64)
    names = [line.split("  ")[0] for line in result.stdout.splitlines()]
    assert names == ["report", "learnable", "closes", "oracle", "suspects", "hard pairs", "verdict"]
    assert full.stdout.startswith("Learnable: ")
    for word in ("L_global", "gap reduction", "closed share", "masked reduction", "alignment", "uniformity"):
        assert word in full.stdout
    assert "suspects" in several.stdout
    assert "nats" not in gcbs(*words, "--loss", "triplet").stdout
    assert max(map(len, (result.stdout + full.stdout + several.stdout).splitlines())) <= 80


def test_no_hint_recommends_what_the_plan_was_made_with(gcbs, sample):
    for options, hinted in (([], True), (["--fn-margin", 1.9], True), (["--preset", "train"], False)):
        gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-f", "-q", "--quantile", 0.999, *options)
        said = gcbs("report", "x.npy", "y.npy", "-p", "perm.npy").stderr
        assert ("suspected false negatives share a batch" in said) or not hinted
        assert ("hint: gcbs plan --preset train keeps" in said) is hinted


def test_warns_when_data_or_batch_size_are_not_the_plans(gcbs, folder):
    gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-k", 20)
    np.save("x2.npy", np.load("x.npy")[::-1])
    assert "planned" not in gcbs("report", "x.npy", "y.npy", "-p", "perm.npy").stderr
    assert "planned from other data" in gcbs("report", "x2.npy", "y.npy", "-p", "perm.npy").stderr
    for options in (["-k", 30], ["-k", 2, "--rows", 60]):
        said = gcbs("report", "x.npy", "y.npy", "-p", "perm.npy", *options).stderr
        assert f"planned for batches of 20, but this report is for {options[1]}" in said


def test_rows_that_the_plan_did_not_normalise_stay_as_they_are(gcbs, folder):
    scaled = 1.005 * np.load("x.npy") / np.linalg.norm(np.load("x.npy"), axis=1, keepdims=True)
    np.save("longer.npy", scaled)
    report = "report", "longer.npy", "y.npy", "-p", "perm.npy", "--json"
    gcbs("plan", "longer.npy", "y.npy", "-o", "perm.npy", "-f", "--no-normalize")
    expected = (scaled * np.load("y.npy").astype(np.float64)).sum(axis=1).mean()
    assert json.loads(gcbs(*report).stdout)["similarity"]["positive"] == pytest.approx(expected, rel=1e-5)


def test_rows_without_an_id_are_in_no_group(gcbs, folder):
    lines = [json.dumps({"id": "a" if row < 20 else ("", None)[row % 2]}) for row in range(300)]
    Path("g.jsonl").write_text("\n".join(lines))
    words = ("report", "x.npy", "y.npy", "-k", 300, "--fn-margin", 2, "--json")
    plain, grouped = (
        json.loads(gcbs(*words, *more).stdout)["false_negatives"]["random"] for more in ((), ("--groups", "g.jsonl"))
    )
    assert 0 < grouped - plain <= 20 * 19 / 2


@pytest.fixture(scope="module")
def made(gcbs, tmp_path_factory):
    """Three epochs, of which the eleventh has a random plan; plans lie beside the reports."""
    folder = tmp_path_factory.mktemp("epochs")
    sides = [folder / f"{side}.npy" for side in "xy"]
    for side in sides:
        np.save(side, np.load(SAMPLE / side.name)[:300])
    hard = ["--graph", "top-m", "--refine", "--fn-margin", "1.1"]
    for number, options in ((1, hard), (2, [*hard, "--seed", "1"]), (11, ["--method", "random"])):
        name = f"{folder}/epoch-{number}"
        words = [*sides, "-o", f"{name}.npy", "-k", "20", *options, "-q", "--report", f"{name}.json"]
        assert gcbs("plan", *words).exit_code == 0
    return folder


@pytest.fixture
def epochs(made, tmp_path, monkeypatch):
    """The files as a shell expands *.json: manifests too, and 11 before 2."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return sorted(path.name for path in tmp_path.glob("*.json"))


def test_json_holds_the_reports_figures_in_natural_order(gcbs, epochs):
    found = json.loads(gcbs("history", *epochs, "--json").stdout)
    assert [epoch["name"] for epoch in found["epochs"]] == ["epoch-1", "epoch-2", "epoch-11"]
    for epoch in found["epochs"]:
        assert epoch["report"] == json.loads(Path(f"{epoch['name']}.json").read_text())
        masked = epoch["report"]["gap"]["masked"]
        assert epoch["closed"] == pytest.approx(masked["random_mean"] - masked["plan"])
        assert epoch["plan_seconds"] == pytest.approx(sum(entry_of(f"{epoch['name']}.npy")["timings"].values()))
    plans = [np.load(f"epoch-{number}.npy") for number in (1, 2, 11)]
    expected = [None, *(pytest.approx(_brute(old, new, 20)) for old, new in pairwise(plans))]
    assert [epoch["recurring"] for epoch in found["epochs"]] == expected


def _brute(old, new, k):
    """Share of the pairs in batches of `old` that share a batch of `new`, by their sets."""
    pairs = []
    for perm in (old, new):
        batches = (sorted(perm[start : start + k].tolist()) for start in range(0, len(perm), k))
        pairs.append({pair for batch in batches for pair in combinations(batch, 2)})
    return len(pairs[0] & pairs[1]) / len(pairs[0])


@pytest.mark.parametrize(("rows", "k"), [(10, 3), (40, 40), (41, 8)])
def test_recurring_pairs_equal_those_of_loops_also_in_a_last_batch_of_fewer(rows, k):
    generator = np.random.default_rng(rows)
    old, new = generator.permutation(rows), generator.permutation(rows)
    assert recurring_pairs(old, new, k) == pytest.approx(_brute(old, new, k))
    assert recurring_pairs(old, new[new < rows - 1], k) is None


def test_it_says_when_planning_has_stopped_paying(gcbs, epochs):
    path = Path("epoch-3.json")  # a plan that only packs suspected pairs
    report = json.loads(Path("epoch-2.json").read_text())
    report["gap"]["masked"]["plan"] = report["gap"]["masked"]["random_mean"]
    path.write_text(json.dumps(report))
    for numbers, last, said in [
        ((1, 2, 11), "epoch-2", "stopped paying: since epoch-11"),
        ((1, 2), "epoch-2", "still pays"),
        ((1, 3), "epoch-1", "without suspected false negatives"),
        ((11,), None, "Planning does not pay here"),
    ]:
        found = json.loads(gcbs("history", *(f"epoch-{number}.json" for number in numbers), "--json").stdout)
        assert found["pays_until"] == last
        assert said in found["verdict"]


def test_plans_by_pattern(gcbs, epochs):
    words = ["epoch-2.json", "epoch-1.json", "--plans", "epoch-[12].npy"]
    found = json.loads(gcbs("history", *words, "--json").stdout)["epochs"]
    assert [epoch["name"] for epoch in found] == ["epoch-1", "epoch-2"]
    assert all(epoch["plan_seconds"] for epoch in found)
    wrong = gcbs("history", "epoch-2.json", "--plans", "*.npy")
    assert (wrong.exit_code, "plans, expected 1" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "no single report"),
        ('{"results": []}', "no single report"),
        ('{"schema": "gcbs.manifest"}', "no single report"),
        (None, "batch size 30, expected 20 as in epoch-1.json"),
    ],
    ids=["damaged", "no reports", "a manifest", "another k"],
)
def test_what_cannot_be_compared_is_named(gcbs, epochs, content, said):
    gcbs("report", "x.npy", "y.npy", "-k", 30, "-o", "other.json", "-q")
    if content is not None:
        Path("other.json").write_text(content)
    result = gcbs("history", "epoch-1.json", "other.json")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert f"other.json: found {said}" in line


def test_a_sample_warns_of_other_batches_and_rows_that_were_planned_as_they_are_stay_so(gcbs, folder):
    assert gcbs("plan", "x.npy", "y.npy", "-k", 4, "--no-normalize", "-q").exit_code == 0
    words = ("report", "x.npy", "y.npy", "-p", "perm.npy")
    sampled = gcbs(*words, "-k", 2, "--rows", 60)
    assert "perm.npy was planned for batches of 4, but this report is for 2" in sampled.stderr
    as_planned = json.loads(gcbs(*words, "--json").stdout)
    assert as_planned["loss"] == json.loads(gcbs(*words, "--json", "--no-normalize").stdout)["loss"]
    assert as_planned["loss"] != json.loads(gcbs(*words, "--json", "--normalize").stdout)["loss"]


def test_the_plan_says_which_columns(gcbs, sample):
    table = pq.read_table("pairs.parquet")
    names = {"x": "query emb", "y": "doc_emb"}
    pq.write_table(table.rename_columns([names.get(name, name) for name in table.column_names]), "own.parquet")
    gcbs("plan", "own.parquet", "--x-column", "query emb", "--y-column", "doc_emb", "-o", "perm.txt", "-q")
    own = json.loads(gcbs("report", "own.parquet", "-p", "perm.txt", "--json").stdout)
    assert own["loss"] == json.loads(gcbs("report", "x.npy", "y.npy", "-p", "perm.txt", "--json").stdout)["loss"]
    assert gcbs("check", "-p", "perm.txt", "own.parquet").exit_code == 0
