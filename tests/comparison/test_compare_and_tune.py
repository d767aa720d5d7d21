"""compare and tune make the plans that `gcbs plan` makes, and tune finds one that fits where there is one."""

import json
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result
from unit_data import make_pair

from gcbs_cli.comparison.compare import Comparison
from gcbs_cli.comparison.history import recurring_pairs
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.progress import Progress
from tests.cli.conftest import folder, gcbs, sample

__all__ = ["folder", "gcbs", "sample"]

ROWS = 2500
"""More than a sample of the quantile has, so that its threshold depends on the seed."""


def test_what_recurs_is_what_recurs_in_two_plans() -> None:
    pair, settings = make_pair("related", ROWS), PlanSettings(batch_size=32, quantile=0.99)
    first, second = (make_plan(pair, settings.changed(seed=seed)) for seed in (0, 1))
    assert first.threshold != second.threshold
    line = Comparison(pair, settings, Progress(), trials=1, recurrence=True).of_method("rcm")
    assert line.recurring == recurring_pairs(first.perm, second.perm, 32)
    assert line.recurring < 1.0


def test_compare_shows_every_method(gcbs: Callable[..., Result], folder: Path) -> None:
    words = ("compare", "x.npy", "y.npy", "--methods", "random,rcm,rcm+refine", "-k", 16, "--trials", 2, "--recurrence")
    lines = {line["method"]: line for line in json.loads(gcbs(*words, "--json").stdout)["methods"]}
    assert list(lines) == ["random", "rcm", "rcm+refine"]
    assert (
        lines["random"]["gap"]["reduction"] < lines["rcm"]["gap"]["reduction"] < lines["rcm+refine"]["gap"]["reduction"]
    )
    assert lines["random"]["recurring"] == pytest.approx(15 / 299, abs=0.05)
    assert lines["random"]["recurring"] < lines["rcm"]["recurring"] < 1.0  # rows without an edge are dealt by the seed
    assert max(map(len, gcbs(*words).stdout.splitlines())) <= 80


def test_compare_says_which_methods_it_leaves_out(
    gcbs: Callable[..., Result], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    result = gcbs("compare", "x.npy", "y.npy", "-k", 16, "--trials", 1)
    assert result.exit_code == 0, result.output
    assert "left out: --method metis: pymetis is not installed" in " ".join(result.stderr.split())
    assert "metis" not in result.stdout


def test_compare_makes_the_plans_that_the_same_options_make(gcbs: Callable[..., Result], folder: Path) -> None:
    Path("t.txt").write_text("\n".join(["sort the list" if i % 3 else "open a file" for i in range(300)]))
    Path("g.txt").write_text("\n".join(str(i // 2) for i in range(300)))
    shared = ("-k", 16, "--groups", "g.txt", "--no-duplicates", "--per-row", 4, "--group-size", 8)
    own = {
        "rcm": (),
        "words": ("--text", "t.txt", "--bsc-group-size", 4),
        "neighbours": ("--bsc-by", "x", "--bsc-group-size", 4),
    }
    asked = ("--text", "t.txt", "--bsc-by", "x", "--bsc-group-size", 4)
    result = gcbs("compare", "x.npy", "y.npy", "--methods", ",".join(own), *shared, *asked, "--trials", 2, "--json")
    for line in json.loads(result.stdout)["methods"]:
        words = ("--method", line["method"], *shared, *own[line["method"]])
        assert gcbs("plan", "x.npy", "y.npy", "-f", *words).exit_code == 0
        report = ("report", "x.npy", "y.npy", "-p", "perm.npy", "--json", "--per-row", 4, "--trials", 2)
        shown = json.loads(gcbs(*report).stdout)
        assert line["gap"]["reduction"] == pytest.approx(shown["gap"]["reduction"], abs=1e-12)
        assert line["false_negatives"]["suspected_pairs"] == shown["false_negatives"]["suspected_pairs"]


TUNED = {
    "alone": (60, "5s", ()),
    "with groups": (400, "3s", ("--groups", "g.txt", "--no-duplicates", "--quantile", 0.98, "--no-normalize")),
    "with texts": (4000, "60s", ("--text", "t.csv", "--text-column", "text")),
}


@pytest.mark.parametrize(("most", "budget", "given"), TUNED.values(), ids=TUNED)
def test_tune_prints_the_command_of_the_best_plan_that_fits(
    gcbs: Callable[..., Result], folder: Path, most: int, budget: str, given: tuple[object, ...]
) -> None:
    Path("g.txt").write_text("\n".join(str(i // 2) for i in range(300)))
    Path("t.csv").write_text("\n".join(["n,text", *(f"{i},{'sort it' if i % 3 else 'open it'}" for i in range(300))]))
    inputs = [shutil.move(f"{side}.npy", f"embeddings-of-the-side-{side}.npy") for side in "xy"]
    words = ("tune", *inputs, "-k", 16, "--budget", budget, "--max-suspected", most, *given)
    found = json.loads(gcbs(*words, "--json").stdout)
    fitting = [trial for trial in found["trials"] if trial["false_negatives"]["suspected_pairs"] <= most]
    assert all(trial["fits"] == (trial in fitting) for trial in found["trials"])
    assert ("--text" in given) == any("--method words" in trial["options"] for trial in found["trials"])
    best = max(fitting, key=lambda trial: trial["gap"]["masked"]["reduction"])
    assert best["options"] in found["command"]
    command = shlex.split(found["command"])
    if "words" in command or "--text" not in given:  # texts are for the method words alone
        assert all(str(word) in command for word in given)
    assert gcbs(*command[1:], "-o", "best.npy").exit_code == 0
    shown = gcbs("report", *inputs, "-p", "best.npy", "--json", *(word for word in given if word == "--no-normalize"))
    assert json.loads(shown.stdout)["false_negatives"]["suspected_pairs"] == best["false_negatives"]["suspected_pairs"]
    if not given:  # for people, the command is one line however long it is
        assert len(gcbs(*words).stdout.splitlines()[-1]) > 80


def test_tune_goes_on_from_the_plan_that_is_nearest_to_the_cap(gcbs: Callable[..., Result], sample: Path) -> None:
    best = ("--method", "metis", "--graph", "top-m", "--refine", "--fn-margin", 0.95, "--fn-weight", 3)
    made = gcbs("plan", "x.npy", "y.npy", "-k", 16, "-o", "p.npy", *best, "--json")
    assert json.loads(made.stdout)["method_settings"]["false_negatives"]["too_hard_inside"] < 20
    result = gcbs("tune", "x.npy", "y.npy", "-k", 16, "--max-suspected", 20, "--budget", "100s", "--json")
    assert json.loads(result.stdout)["command"] is not None
