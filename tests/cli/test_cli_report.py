"""`gcbs report` through the command line, on real embeddings."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Gcbs, entry_of


@pytest.mark.parametrize("copies", [1, 2], ids=["distinct rows", "each row twice"])
def test_rows_paired_with_themselves_have_the_threshold_of_their_plan(gcbs: Gcbs, folder: Path, copies: int) -> None:
    rows = np.random.default_rng(0).normal(size=(60 // copies, 8)).astype(np.float32)
    np.save("self.npy", np.tile(rows, (copies, 1)))
    assert gcbs("plan", "self.npy", "self.npy", "-o", "perm.npy", "-k", 8, "-q").exit_code == 0
    entry = entry_of()
    assert entry["quantile"]["threshold"] > 1.0  # whole numbers name a row's product with itself with their error
    found = json.loads(gcbs("report", "self.npy", "self.npy", "-p", "perm.npy", "--json").stdout)
    assert found["graph"]["threshold"] == pytest.approx(entry["quantile"]["threshold"], abs=1e-6)
    assert found["graph"]["edges"] == entry["graph"]["edges"]


def test_several_combinations_are_one_object_each(gcbs: Gcbs, folder: Path) -> None:
    words = ["-k", 16, "-k", 50, "-t", 0.02, "-t", 0.1, "--loss", "infonce", "--loss", "simclr", "--json"]
    found = json.loads(gcbs("report", "x.npy", "y.npy", *words, "-o", "report.json").stdout)
    assert json.loads(Path("report.json").read_text()) == found
    combinations = [(r["loss_kind"], r["batch_size"], r["temperature"]) for r in found["results"]]
    assert combinations == [(loss, k, t) for loss in ("infonce", "simclr") for k in (16, 50) for t in (0.02, 0.1)]
    alone = json.loads(gcbs("report", "x.npy", "y.npy", "-k", 50, "-t", 0.1, "--loss", "infonce", "--json").stdout)
    assert alone["loss"] == pytest.approx(found["results"][3]["loss"], abs=1e-6)


def test_a_pipeline_gives_the_same_report_as_files(gcbs: Gcbs, folder: Path) -> None:
    program = f"{sys.executable} -m gcbs_cli"
    pipe = f"{program} plan x.npy y.npy -o - | {program} report x.npy y.npy -p - --json"
    piped = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, timeout=120, cwd=folder, check=True)
    gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-q")
    alone = json.loads(gcbs("report", "x.npy", "y.npy", "-p", "perm.npy", "--json").stdout)
    assert {**json.loads(piped.stdout), "timings": {}} == {**alone, "timings": {}}


def test_six_lines_and_all_figures_on_request_in_80_columns(gcbs: Gcbs, sample: Path) -> None:
    gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-q")
    words = ("report", "x.npy", "y.npy", "-p", "perm.npy")
    result, full, several = gcbs(*words), gcbs(*words, "--full"), gcbs(*words, "-k", 16, "-k", 64)
    names = [line.split("  ")[0] for line in result.stdout.splitlines()]
    assert names == ["report", "closes", "oracle", "suspects", "hard pairs", "verdict"]
    assert "of the gap that random batches of 64 leave" in full.stdout
    for word in ("L_global", "gap reduction", "closed share", "masked reduction", "alignment", "uniformity"):
        assert word in full.stdout
    assert "suspects" in several.stdout
    assert "nats" not in gcbs(*words, "--loss", "triplet").stdout
    assert max(map(len, (result.stdout + full.stdout + several.stdout).splitlines())) <= 80


def test_no_hint_recommends_what_the_plan_was_made_with(gcbs: Gcbs, sample: Path) -> None:
    for options, hinted in (([], True), (["--fn-margin", 1.9], True), (["--fn-margin", 0.95], False)):
        gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-f", "-q", *options)
        said = gcbs("report", "x.npy", "y.npy", "-p", "perm.npy").stderr
        assert ("suspected false negatives share a batch" in said) or not hinted
        assert ("hint: gcbs plan --preset train --fn-margin 0.95" in said) is hinted


def test_warns_when_data_or_batch_size_are_not_the_plans(gcbs: Gcbs, folder: Path) -> None:
    gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-k", 20)
    np.save("x2.npy", np.load("x.npy")[::-1])
    assert "planned" not in gcbs("report", "x.npy", "y.npy", "-p", "perm.npy").stderr
    assert "planned from other data" in gcbs("report", "x2.npy", "y.npy", "-p", "perm.npy").stderr
    assert "planned for batches of 20" in gcbs("report", "x.npy", "y.npy", "-p", "perm.npy", "-k", 30).stderr


def test_check_accepts_its_own_data_and_nothing_else(gcbs: Gcbs, folder: Path) -> None:
    gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-q")
    assert gcbs("check", "perm.npy").exit_code == 0
    assert gcbs("check", "perm.npy", "x.npy", "y.npy").exit_code == 0
    wrong = gcbs("check", "perm.npy", "y.npy", "x.npy")
    assert wrong.exit_code == 1
    assert "error" in wrong.stderr
    order = np.load("perm.npy")
    order[0] = order[1]
    np.save("perm.npy", order)
    broken = gcbs("check", "perm.npy", "--json")
    assert broken.exit_code == 1
    assert json.loads(broken.stdout)["ok"] is False


def test_the_plan_says_which_columns_and_the_error_without_it_names_both(gcbs: Gcbs, sample: Path) -> None:
    table = pq.read_table("pairs.parquet")
    names = {"x": "query emb", "y": "doc_emb"}
    pq.write_table(table.rename_columns([names.get(name, name) for name in table.column_names]), "own.parquet")
    refused = gcbs("plan", "own.parquet", "-o", "perm.npy")
    assert "name the right ones with --x-column and --y-column" in refused.stderr
    gcbs("plan", "own.parquet", "--x-column", "query emb", "--y-column", "doc_emb", "-o", "perm.npy", "-q")
    own = json.loads(gcbs("report", "own.parquet", "-p", "perm.npy", "--json").stdout)
    assert own["loss"] == json.loads(gcbs("report", "x.npy", "y.npy", "-p", "perm.npy", "--json").stdout)["loss"]
    assert gcbs("check", "perm.npy", "own.parquet").exit_code == 0
