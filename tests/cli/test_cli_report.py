"""`gcbs report` through the command line, on real embeddings."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from gcbs_cli import plan, report
from tests.cli.conftest import Gcbs


def _brute_loss(order: np.ndarray, k: int, tau: float) -> tuple[float, float]:
    """Symmetric L_global and L_train in float64, straight from the definitions."""
    x, y = (np.load(name).astype(np.float64) for name in ("x.npy", "y.npy"))
    s = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (y / np.linalg.norm(y, axis=1, keepdims=True)).T / tau
    batch = np.empty(len(s), int)
    batch[order] = np.arange(len(s)) // k
    same = batch[:, None] == batch[None, :]
    powers, positive = np.exp(s), np.diag(s)
    whole = (np.log(powers.sum(1)) + np.log(powers.sum(0))).mean() / 2 - positive.mean()
    train = (np.log((powers * same).sum(1)) + np.log((powers * same).sum(0))).mean() / 2 - positive.mean()
    return whole, train


def test_json_holds_the_losses_of_a_brute_force(gcbs: Gcbs, sample: Path) -> None:
    gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-k", 32, "-q")
    found = json.loads(gcbs("report", "x.npy", "y.npy", "-p", "perm.npy", "--json").stdout)
    whole, train = _brute_loss(np.load("perm.npy"), 32, 0.05)
    assert found["batch_size"] == 32
    assert found["loss"]["global"] == pytest.approx(whole, abs=1e-5)
    assert found["loss"]["plan"] == pytest.approx(train, abs=1e-5)
    assert found["gap"]["plan"] == pytest.approx(whole - train, abs=1e-5)
    assert 0 < found["gap"]["oracle"] < found["gap"]["plan"] < found["gap"]["random_mean"]
    assert found["gap"]["plan"] <= min(found["bounds"].values())
    assert found["gap"]["reduction"] == pytest.approx(1 - found["gap"]["plan"] / found["gap"]["random_mean"])


KEYS = {
    "loss": {"global", "plan", "random_mean", "random_std"},
    "gap": {"plan", "random_mean", "random_std", "oracle", "reduction", "closed_share", "masked"},
    "bounds": {"translation", "logsumexp"},
    "positive_probability": {"global", "plan", "random"},
    "graph": {"threshold", "quantile", "edges", "isolated", "isolated_batches", "max_degree"},
    "bandwidth": {"identity", "random", "plan"},
    "profile": {"identity", "random", "plan"},
    "in_batch_edge_share": {"random", "plan"},
    "false_negatives": {"suspected_pairs", "random", "rows"},
    "uniformity": {"x", "y"},
}


@pytest.mark.parametrize("copies", [1, 2], ids=["distinct rows", "each row twice"])
def test_rows_paired_with_themselves_have_the_threshold_of_their_plan(gcbs: Gcbs, folder: Path, copies: int) -> None:
    rows = np.random.default_rng(0).normal(size=(60 // copies, 8)).astype(np.float32)
    np.save("self.npy", np.tile(rows, (copies, 1)))
    assert gcbs("plan", "self.npy", "self.npy", "-o", "perm.npy", "-k", 8, "-q").exit_code == 0
    entry = json.loads(Path("perm.npy.manifest.json").read_text())["entries"][0]
    assert entry["quantile"]["threshold"] > 1.0  # whole numbers name a row's product with itself with their error
    found = json.loads(gcbs("report", "self.npy", "self.npy", "-p", "perm.npy", "--json").stdout)
    assert found["graph"]["threshold"] == pytest.approx(entry["quantile"]["threshold"], abs=1e-6)
    assert found["graph"]["edges"] == entry["graph"]["edges"]


def test_json_without_a_plan_has_every_key_and_null_for_the_plan(gcbs: Gcbs, sample: Path) -> None:
    found = json.loads(gcbs("report", "pairs.parquet", "--json").stdout)
    for part, keys in KEYS.items():
        assert set(found[part]) == keys
        assert found[part].get("plan") is None
    assert found["false_negatives"]["suspected_pairs"] is None
    assert found["mutual_information_bound"] is None
    assert found["gap"]["masked"]["plan"] is None
    assert found["gap"]["oracle"] < found["gap"]["random_mean"]


def test_several_combinations_are_one_object_each(gcbs: Gcbs, folder: Path) -> None:
    words = ["-k", 16, "-k", 50, "-t", 0.02, "-t", 0.1, "--loss", "infonce", "--loss", "simclr", "--json"]
    found = json.loads(gcbs("report", "x.npy", "y.npy", *words).stdout)
    combinations = [(r["loss_kind"], r["batch_size"], r["temperature"]) for r in found["results"]]
    assert combinations == [(loss, k, t) for loss in ("infonce", "simclr") for k in (16, 50) for t in (0.02, 0.1)]
    alone = json.loads(gcbs("report", "x.npy", "y.npy", "-k", 50, "-t", 0.1, "--loss", "infonce", "--json").stdout)
    assert alone["loss"] == pytest.approx(found["results"][3]["loss"], abs=1e-6)


def test_a_pipeline_gives_the_same_report_as_files(sample: Path) -> None:
    gcbs = f"{sys.executable} -m gcbs_cli"
    pipe = f"{gcbs} plan x.npy y.npy -o - | {gcbs} report x.npy y.npy -p - --json"
    piped = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, timeout=120, cwd=sample, check=True)
    files = f"{gcbs} plan x.npy y.npy -o p.npy -q && {gcbs} report x.npy y.npy -p p.npy --json"
    filed = subprocess.run(["bash", "-c", files], capture_output=True, text=True, timeout=120, cwd=sample, check=True)
    one, other = json.loads(piped.stdout), json.loads(filed.stdout)
    del one["timings"], other["timings"]
    assert one == other


def test_output_file_holds_what_json_prints(gcbs: Gcbs, folder: Path) -> None:
    result = gcbs("report", "x.npy", "y.npy", "-o", "report.json", "--json")
    assert json.loads(Path("report.json").read_text()) == json.loads(result.stdout)
    again = gcbs("report", "x.npy", "y.npy", "-o", "report.json")
    assert again.exit_code == 2
    assert "--force" in again.stderr


def test_table_says_what_the_figures_mean_in_80_columns(gcbs: Gcbs, sample: Path) -> None:
    gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-q")
    result = gcbs("report", "x.npy", "y.npy", "-p", "perm.npy")
    assert "of the gap that random batches of 64 leave" in result.stdout
    for word in ("L_global", "gap reduction", "closed share", "masked reduction", "alignment", "uniformity"):
        assert word in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_table_of_several_fits_80_columns_without_cutting(gcbs: Gcbs, sample: Path) -> None:
    result = gcbs("report", "x.npy", "y.npy", "-k", 16, "-k", 64, "--loss", "symmetric")
    assert "suspects" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_warns_when_the_plan_is_of_other_data(gcbs: Gcbs, folder: Path) -> None:
    gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy")
    np.save("x2.npy", np.load("x.npy")[::-1])
    assert "other data" not in gcbs("report", "x.npy", "y.npy", "-p", "perm.npy").stderr
    result = gcbs("report", "x2.npy", "y.npy", "-p", "perm.npy")
    assert result.exit_code == 0
    assert "other data" in result.stderr


def test_warns_when_k_is_not_the_plans(gcbs: Gcbs, folder: Path) -> None:
    gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-k", 20, "-q")
    assert "planned for batches of 20" in gcbs("report", "x.npy", "y.npy", "-p", "perm.npy", "-k", 30).stderr
    assert "planned for" not in gcbs("report", "x.npy", "y.npy", "-p", "perm.npy").stderr


def test_warns_of_many_suspected_false_negatives(gcbs: Gcbs, sample: Path) -> None:
    gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-q")
    said = gcbs("report", "x.npy", "y.npy", "-p", "perm.npy").stderr
    assert "suspected false negatives share a batch" in said
    assert "hint: a plan with --graph top-m --refine --fn-margin 0.95" in said


def test_queue_of_planned_batches(gcbs: Gcbs, folder: Path) -> None:
    plain = json.loads(gcbs("report", "x.npy", "y.npy", "--loss", "infonce", "--json").stdout)
    longer = json.loads(gcbs("report", "x.npy", "y.npy", "--loss", "infonce", "--queue", 2, "--json").stdout)
    moco = json.loads(gcbs("report", "x.npy", "y.npy", "--queue", 2, "--queue-mode", "moco", "--json").stdout)
    assert (longer["loss_kind"], moco["loss_kind"]) == ("xbm", "moco")
    assert longer["gap"]["random_mean"] < plain["gap"]["random_mean"]


@pytest.mark.parametrize(
    "words",
    [["--trials", "0"], ["--fn-margin", "-1"], ["-k", "1"], ["-t", "0"], ["--queue", "-1"], ["-p", "none.npy"]],
    ids=" ".join,
)
def test_bad_report_options(gcbs: Gcbs, folder: Path, words: list[str]) -> None:
    result = gcbs("report", "x.npy", "y.npy", *words)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1


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


def test_python_api_gives_the_command_lines_figures(gcbs: Gcbs, sample: Path) -> None:
    torch = pytest.importorskip("torch")
    x, y = np.load("x.npy"), np.load("y.npy")
    gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-k", 32, "-q")
    result = plan(torch.from_numpy(x), torch.from_numpy(y), batch_size=32)
    assert result.perm.tolist() == np.load("perm.npy").tolist()
    printed = json.loads(gcbs("report", "x.npy", "y.npy", "-p", "perm.npy", "--json").stdout)
    assert result.threshold is not None
    found = report(x, y, torch.from_numpy(result.perm), batch_size=32, threshold=result.threshold.similarity)
    ours = found.model_dump(mode="json")
    del ours["timings"], printed["timings"]
    assert ours == printed


def test_the_plan_says_which_columns_and_the_error_without_it_names_both(gcbs: Gcbs, sample: Path) -> None:
    table = pq.read_table("pairs.parquet")
    names = {"x": "query emb", "y": "doc_emb"}
    pq.write_table(table.rename_columns([names.get(name, name) for name in table.column_names]), "own.parquet")
    refused = gcbs("plan", "own.parquet", "-o", "perm.npy")
    assert "name the right ones, such as --x-column 'query emb' --y-column doc_emb" in refused.stderr
    gcbs("plan", "own.parquet", "--x-column", "query emb", "--y-column", "doc_emb", "-o", "perm.npy", "-q")
    own = json.loads(gcbs("report", "own.parquet", "-p", "perm.npy", "--json").stdout)
    assert own["loss"] == json.loads(gcbs("report", "x.npy", "y.npy", "-p", "perm.npy", "--json").stdout)["loss"]
    assert gcbs("check", "perm.npy", "own.parquet").exit_code == 0
