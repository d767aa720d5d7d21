"""Refinement, false negatives, groups and the order of batches through the command line."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Gcbs


def plan(gcbs: Gcbs, *words: object) -> tuple[np.ndarray, dict]:
    result = gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-k", 16, "-f", *words)
    assert result.exit_code == 0, result.output
    entry = json.loads(Path("perm.npy.manifest.json").read_text())["entries"][0]
    return np.load("perm.npy"), entry


def report(gcbs: Gcbs, *words: object) -> dict:
    result = gcbs("report", "x.npy", "y.npy", "-p", "perm.npy", "--json", "--trials", 2, *words)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_refined_plan_is_recorded_and_closes_more(gcbs: Gcbs, folder: Path) -> None:
    plan(gcbs)
    plain = report(gcbs)
    _, entry = plan(gcbs, "--graph", "top-m", "--top", 8, "--refine")
    done = entry["method_settings"]["refinement"]
    assert entry["graph"]["kind"] == "top-m"
    assert (entry["graph"]["top"], entry["graph"]["isolated"]) == (8, 0)
    assert entry["quantile"]["threshold"] > 0
    assert done["swaps"] > 0
    assert done["objective_after"] > done["objective_before"]
    assert report(gcbs)["gap"]["reduction"] > plain["gap"]["reduction"] + 0.1
    text = gcbs("plan", "x.npy", "y.npy", "-k", 16, "-f", "--refine", "--fn-margin", 0.9).stdout
    for word in ("refinement", "swaps in", "suspected pairs", "inside batches"):
        assert word in text


def test_suspected_pairs_go_and_the_report_counts_what_is_left(gcbs: Gcbs, folder: Path) -> None:
    plan(gcbs, "--refine")
    before = report(gcbs, "--fn-margin", 0.8)["false_negatives"]["suspected_pairs"]
    _, entry = plan(gcbs, "--refine", "--fn-margin", 0.8)
    after = report(gcbs, "--fn-margin", 0.8)["false_negatives"]["suspected_pairs"]
    assert after == entry["method_settings"]["false_negatives"]["suspected_inside"]
    assert after < before / 2


def test_a_method_that_cannot_keep_suspects_apart_says_so(gcbs: Gcbs, folder: Path) -> None:
    for method in ("rcm", "random"):
        result = gcbs("plan", "x.npy", "y.npy", "-f", "-k", 16, "--fn-margin", 0.9, "--method", method)
        said = f"{method} alone cannot keep suspected pairs apart; add --refine"
        assert said in " ".join(result.stderr.split())


def test_groups_from_a_file_never_share_a_batch_and_count_as_suspected(gcbs: Gcbs, folder: Path) -> None:
    names = [f"g{row % 50}" for row in range(300)]
    Path("groups.txt").write_text("\n".join(names) + "\n")
    perm, entry = plan(gcbs, "--refine", "--groups", "groups.txt")
    for start in range(0, 300, 16):
        own = [names[row] for row in perm[start : start + 16]]
        assert len(set(own)) == len(own)
    assert entry["method_settings"]["groups"] == "groups.txt"
    np.save("perm.npy", np.array(sorted(range(300), key=lambda row: row % 50)))
    alone = report(gcbs, "--fn-margin", 2.0, "-k", 6)["false_negatives"]
    together = report(gcbs, "--fn-margin", 2.0, "-k", 6, "--groups", "groups.txt")["false_negatives"]
    assert (alone["suspected_pairs"], together["suspected_pairs"]) == (0, 50 * 15)


def test_report_reads_the_groups_again_that_the_manifest_names(gcbs: Gcbs, folder: Path) -> None:
    lines = [f"a,{row // 2}" for row in range(300)]
    Path("g.csv").write_text("\n".join(["other,group", *lines]) + "\n")
    plan(gcbs, "--groups", "g.csv", "--groups-column", "group")
    counted = report(gcbs, "--fn-margin", 2.0, "-k", 50)["false_negatives"]["suspected_pairs"]
    asked = ("--fn-margin", 2.0, "-k", 50, "--groups", "g.csv", "--groups-column", "group")
    assert counted == report(gcbs, *asked)["false_negatives"]["suspected_pairs"] > 0
    command = ("report", "x.npy", "y.npy", "-p", "perm.npy", "--json", "--fn-margin", 2.0, "-k", 50)
    Path("g.csv").write_text("\n".join(["other,group", *lines[1:], "a,0"]) + "\n")
    changed = gcbs(*command)
    Path("g.csv").unlink()
    for result, reason in ((changed, "g.csv: holds other groups"), (gcbs(*command), "g.csv: found no such file")):
        assert result.exit_code == 0
        assert json.loads(result.stdout)["false_negatives"]["suspected_pairs"] == 0
        said = [line for line in result.stderr.splitlines() if "leaves the groups out" in line]
        assert len(said) == 1
        assert reason in said[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--groups", "groups.txt"), "one group has 300 rows, and there are 19 batches of 16"),
        (("--top", 0), "--top 0: expected at least 1"),
        (("--time-limit", 0), "--time-limit 0: expected more than 0"),
        (("--fn-margin", 3), "--fn-margin 3: expected at most 2"),
        (("--fn-weight", -1), "--fn-weight -1: expected at least 0"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_bad_options_are_named(gcbs: Gcbs, folder: Path, words: tuple, message: str) -> None:
    Path("groups.txt").write_text("same\n" * 300)
    result = gcbs("plan", "x.npy", "y.npy", "-k", 16, "-f", *words)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not Path("perm.npy").exists()


def test_compare_shows_every_method(gcbs: Gcbs, folder: Path) -> None:
    words = ("--methods", "random,rcm,rcm+refine", "-k", 16, "--trials", 2, "--recurrence")
    result = gcbs("compare", "x.npy", "y.npy", *words, "--json")
    assert result.exit_code == 0, result.output
    lines = {line["method"]: line for line in json.loads(result.stdout)["methods"]}
    assert list(lines) == ["random", "rcm", "rcm+refine"]
    reductions = {method: line["gap"]["reduction"] for method, line in lines.items()}
    assert reductions["random"] < reductions["rcm"] < reductions["rcm+refine"]
    assert lines["random"]["recurring"] == pytest.approx(15 / 299, abs=0.05)
    assert lines["random"]["recurring"] < lines["rcm"]["recurring"] < 1.0  # rows without an edge are dealt by the seed
    plan(gcbs, "--refine")
    shown = report(gcbs)
    assert reductions["rcm+refine"] == pytest.approx(shown["gap"]["reduction"], abs=0.02)
    assert lines["rcm+refine"]["false_negatives"]["suspected_pairs"] == shown["false_negatives"]["suspected_pairs"]
    table = gcbs("compare", "x.npy", "y.npy", *words).stdout
    assert max(map(len, table.splitlines())) <= 80
    assert gcbs("compare", "x.npy", "y.npy", "--methods", "rmc").exit_code == 2


def test_compare_says_which_methods_it_leaves_out(gcbs: Gcbs, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    result = gcbs("compare", "x.npy", "y.npy", "-k", 16, "--trials", 1)
    assert result.exit_code == 0, result.output
    assert "left out: --method metis: pymetis is not installed" in " ".join(result.stderr.split())
    assert "metis" not in result.stdout


def test_tune_prints_the_command_of_the_best_plan_that_fits(gcbs: Gcbs, folder: Path) -> None:
    result = gcbs("tune", "x.npy", "y.npy", "-k", 16, "--budget", "5s", "--max-suspected", 60, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    fitting = [trial for trial in found["trials"] if trial["false_negatives"]["suspected_pairs"] <= 60]
    assert fitting
    assert all(trial["fits"] == (trial in fitting) for trial in found["trials"])
    best = max(fitting, key=lambda trial: trial["gap"]["masked"]["reduction"])
    assert best["options"] in found["command"]
    words = found["command"].split(" ")
    assert gcbs(*words[1:], "-o", "best.npy").exit_code == 0
    shown = gcbs("report", "x.npy", "y.npy", "-p", "best.npy", "--json", "--trials", 2)
    assert json.loads(shown.stdout)["false_negatives"]["suspected_pairs"] == best["false_negatives"]["suspected_pairs"]
    assert gcbs("tune", "x.npy", "y.npy", "--budget", "soon").exit_code == 2


def test_compare_makes_the_plans_that_the_same_options_make(gcbs: Gcbs, folder: Path) -> None:
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
    assert result.exit_code == 0, result.output
    for line in json.loads(result.stdout)["methods"]:
        plan(gcbs, "--method", line["method"], *shared[2:], *own[line["method"]])
        shown = report(gcbs, "--per-row", 4, "--groups", "g.txt")
        assert line["gap"]["reduction"] == pytest.approx(shown["gap"]["reduction"], abs=1e-12)
        assert line["false_negatives"]["suspected_pairs"] == shown["false_negatives"]["suspected_pairs"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--methods", "words"), "--method words: expected the rows' texts"),
        (("--methods", "rcm", "--text", "t.txt"), "--text: goes with --method words"),
        (("--methods", "rcm,words", "--text", "t.txt"), "has 2 rows, the embeddings 300"),
        (("--methods", "rcm,cm", "--bsc-by", "x"), "--bsc-by: goes with --method knn-groups or clusters"),
        (("--methods", "rcm", "--groups", "none.txt"), "none.txt"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_compare_refuses_what_no_method_can_use(gcbs: Gcbs, folder: Path, words: tuple[str, ...], said: str) -> None:
    Path("t.txt").write_text("one\ntwo\n")
    result = gcbs("compare", "x.npy", "y.npy", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_tune_prints_all_that_it_was_given(gcbs: Gcbs, folder: Path) -> None:
    Path("g.txt").write_text("\n".join(str(i // 2) for i in range(300)))
    given = ("--groups", "g.txt", "--no-duplicates", "--quantile", 0.98, "--no-normalize")
    result = gcbs("tune", "x.npy", "y.npy", "-k", 16, "--budget", "3s", "--max-suspected", 400, *given, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    best = max(
        (trial for trial in found["trials"] if trial["fits"]), key=lambda trial: trial["gap"]["masked"]["reduction"]
    )
    assert all(str(word) in found["command"].split(" ") for word in given)
    assert gcbs(*found["command"].split(" ")[1:], "-o", "best.npy").exit_code == 0
    shown = gcbs("report", "x.npy", "y.npy", "-p", "best.npy", "--groups", "g.txt", "--no-normalize", "--json")
    assert json.loads(shown.stdout)["false_negatives"]["suspected_pairs"] == best["false_negatives"]["suspected_pairs"]


def test_tune_tries_words_where_it_is_given_texts(gcbs: Gcbs, folder: Path) -> None:
    given = ("--text", "t.csv", "--text-column", "text")
    texts = ["sort the list" if row % 3 else "open a file" for row in range(300)]
    Path("t.csv").write_text("\n".join(["n,text", *(f"{row},{text}" for row, text in enumerate(texts))]) + "\n")
    result = gcbs("tune", "x.npy", "y.npy", "-k", 16, "--budget", "60s", "--max-suspected", 4000, *given, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    words = found["command"].split(" ")
    fits = [trial for trial in found["trials"] if trial["fits"]]
    best = max(fits, key=lambda trial: trial["gap"]["masked"]["reduction"])
    assert gcbs(*words[1:], "-o", "best.npy").exit_code == 0
    shown = gcbs("report", "x.npy", "y.npy", "-p", "best.npy", "--json")
    assert json.loads(shown.stdout)["false_negatives"]["suspected_pairs"] == best["false_negatives"]["suspected_pairs"]
    assert any("--method words" in trial["options"] for trial in found["trials"])
    assert ("--text t.csv --text-column text" in found["command"]) == (words[words.index("--method") + 1] == "words")
