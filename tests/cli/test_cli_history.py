"""`gcbs history`: epochs side by side, on reports of real plans."""

import json
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from gcbs_cli.cli.history_table import sparkline
from gcbs_cli.comparison.history.build import recurring_pairs
from gcbs_cli.comparison.history_page import epoch_labels
from tests.cli.conftest import Gcbs


@pytest.fixture
def epochs(gcbs: Gcbs, folder: Path) -> Path:
    """Three epochs, of which the eleventh has a random plan; plans lie beside the reports."""
    (folder / "reports").mkdir()
    hard = ["--graph", "top-m", "--refine", "--fn-margin", 0.95]
    for number, options in ((1, hard), (2, [*hard, "--seed", 1]), (11, ["--method", "random"])):
        name = f"reports/epoch-{number}"
        words = ["-o", f"{name}.npy", "-k", 20, *options, "-q", "--report", f"{name}.json"]
        assert gcbs("plan", "x.npy", "y.npy", *words).exit_code == 0
    return folder


def _paths(folder: Path) -> list[str]:
    """As a shell expands reports/*.json: manifests too, and 11 before 2."""
    return sorted(map(str, (folder / "reports").glob("*.json")))


def test_json_holds_the_reports_figures_in_natural_order(gcbs: Gcbs, epochs: Path) -> None:
    result = gcbs("history", *_paths(epochs), "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [epoch["name"] for epoch in found["epochs"]] == ["epoch-1", "epoch-2", "epoch-11"]
    for epoch in found["epochs"]:
        report = json.loads(Path(f"reports/{epoch['name']}.json").read_text())
        manifest = json.loads(Path(f"reports/{epoch['name']}.npy.manifest.json").read_text())["entries"][0]
        assert epoch["report"] == report
        masked = report["gap"]["masked"]
        assert epoch["closed"] == pytest.approx(masked["random_mean"] - masked["plan"])
        assert epoch["plan_seconds"] == pytest.approx(sum(manifest["timings"].values()))
    plans = [np.load(f"reports/epoch-{number}.npy") for number in (1, 2, 11)]
    assert found["epochs"][0]["recurring"] is None
    assert found["epochs"][1]["recurring"] == pytest.approx(_brute(plans[0], plans[1], 20))
    assert found["epochs"][2]["recurring"] == pytest.approx(_brute(plans[1], plans[2], 20))


def _pairs(perm: np.ndarray, k: int) -> set[tuple[int, int]]:
    batches = (sorted(perm[start : start + k].tolist()) for start in range(0, len(perm), k))
    return {pair for batch in batches for pair in combinations(batch, 2)}


def _brute(old: np.ndarray, new: np.ndarray, k: int) -> float:
    return len(_pairs(old, k) & _pairs(new, k)) / len(_pairs(old, k))


@pytest.mark.parametrize(("rows", "k"), [(10, 3), (40, 40), (41, 8), (7, 2)])
def test_recurring_pairs_equal_those_of_loops(rows: int, k: int) -> None:
    generator = np.random.default_rng(rows)
    old, new = generator.permutation(rows), generator.permutation(rows)
    assert recurring_pairs(old, new, k) == pytest.approx(_brute(old, new, k))
    assert recurring_pairs(old, old, k) == 1.0
    assert recurring_pairs(old, new[new < rows - 1], k) is None


def test_it_says_when_planning_has_stopped_paying(gcbs: Gcbs, epochs: Path) -> None:
    found = json.loads(gcbs("history", *_paths(epochs), "--json").stdout)
    assert found["pays_until"] == "epoch-2"
    assert "stopped paying: since epoch-11" in found["verdict"]
    early = json.loads(gcbs("history", "reports/epoch-1.json", "reports/epoch-2.json", "--json").stdout)
    assert early["pays_until"] == "epoch-2"
    assert "still pays" in early["verdict"]
    never = json.loads(gcbs("history", "reports/epoch-11.json", "--json").stdout)
    assert never["pays_until"] is None
    assert "does not pay" in never["verdict"]


def test_a_plan_that_only_packs_suspected_pairs_does_not_pay(gcbs: Gcbs, epochs: Path) -> None:
    path = Path("reports/epoch-2.json")
    report = json.loads(path.read_text())
    report["gap"]["masked"]["plan"] = report["gap"]["masked"]["random_mean"]
    path.write_text(json.dumps(report))
    found = json.loads(gcbs("history", "reports/epoch-1.json", "reports/epoch-2.json", "--json").stdout)
    assert found["pays_until"] == "epoch-1"
    assert "without suspected false negatives" in found["verdict"]


def test_reports_of_older_versions_are_read(gcbs: Gcbs, epochs: Path) -> None:
    """With figures that are gone, and without those that are new."""
    for path in Path("reports").glob("epoch-*[0-9].json"):
        report = json.loads(path.read_text())
        report |= {"cross_check": {"rows": 128, "gap": 1.0, "difference": 1e-7, "tolerance": 1e-6}}
        report["false_negatives"]["top_ranks"] = 3
        report["partitions"] = None
        report["gap"]["masked"].pop("random_std")
        path.write_text(json.dumps(report))
    result = gcbs("history", *_paths(epochs), "--json")
    assert result.exit_code == 0, result.stderr
    assert len(json.loads(result.stdout)["epochs"]) == 3


def test_table_fits_80_columns_and_shows_bars(gcbs: Gcbs, epochs: Path) -> None:
    lines = gcbs("history", *_paths(epochs)).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("█" in line and "▁" in line for line in lines)


def test_plans_by_pattern_and_the_order_given(gcbs: Gcbs, epochs: Path) -> None:
    words = ["reports/epoch-2.json", "reports/epoch-1.json", "--plans", "reports/epoch-[12].npy", "--keep-order"]
    names = [epoch["name"] for epoch in json.loads(gcbs("history", *words, "--json").stdout)["epochs"]]
    assert names == ["epoch-2", "epoch-1"]
    wrong = gcbs("history", "reports/epoch-2.json", "--plans", "reports/*.npy")
    assert wrong.exit_code == 2
    assert "found 3 plans, expected 1" in wrong.stderr


def test_page_is_complete_and_escaped(gcbs: Gcbs, epochs: Path) -> None:
    Path("reports/epoch-2.json").rename("reports/epoch-<script>2.json")
    assert gcbs("history", *_paths(epochs), "--html", "history.html", "-q").exit_code == 0
    page = Path("history.html").read_text()
    assert "<script" not in page
    assert "epoch-&lt;script&gt;2" in page
    assert page.count("<svg") == 4 * 2  # wide and narrow
    assert gcbs("history", *_paths(epochs), "--html", "history.html").exit_code == 2


def test_epochs_are_numbered_as_their_reports_are(gcbs: Gcbs, epochs: Path) -> None:
    gcbs("history", *_paths(epochs), "--html", "h.html", "-q")
    assert re.findall(r'class="middle"[^>]*>(\d+)<', Path("h.html").read_text())[:3] == ["1", "2", "11"]
    assert epoch_labels(["a", "b"]) == ["1", "2"]
    assert epoch_labels(["run-1", "other-1"]) == ["1", "2"]


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "no JSON"), ("[]", "no report"), ('{"schema": "gcbs.manifest"}', "manifest"), ('{"n": 1}', "no report")],
    ids=["damaged", "a list", "a manifest", "something else"],
)
def test_what_is_no_report_is_named(gcbs: Gcbs, epochs: Path, content: str, said: str) -> None:
    Path("other.json").write_text(content)
    result = gcbs("history", "reports/epoch-1.json", "other.json")
    assert result.exit_code == 2
    assert "other.json" in result.stderr
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_epochs_under_another_k_are_refused(gcbs: Gcbs, epochs: Path) -> None:
    gcbs("report", "x.npy", "y.npy", "-k", 30, "-o", "other.json", "-q")
    result = gcbs("history", "reports/epoch-1.json", "other.json")
    assert result.exit_code == 2
    assert "found batch size 20, expected 30" in result.stderr


def test_sparkline_scales_and_shortens() -> None:
    assert sparkline([0.0, None, 7.0, 3.5]) == "▁ █▅"
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert sparkline([]) == ""
    assert len(sparkline(list(map(float, range(1000))))) == 24
