"""Refinement, false negatives, groups and the order of batches through the command line."""

import json
from pathlib import Path

import numpy as np

from tests.cli.conftest import Gcbs, entry_of


def plan(gcbs: Gcbs, *words: object) -> tuple[np.ndarray, dict]:
    result = gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-k", 16, "-f", *words)
    assert result.exit_code == 0, result.output
    return np.load("perm.npy"), entry_of()


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
    assert "swaps in" in text


def test_a_method_that_cannot_keep_suspects_apart_says_so(gcbs: Gcbs, folder: Path) -> None:
    for method in ("rcm", "random"):
        result = gcbs("plan", "x.npy", "y.npy", "-f", "-k", 16, "--fn-margin", 0.9, "--method", method)
        said = f"{method} alone cannot keep pairs apart that are too hard; add --refine"
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
    for result, reason in ((changed, "g.csv: holds other groups"), (gcbs(*command), "g.csv: file not found")):
        assert result.exit_code == 0
        assert json.loads(result.stdout)["false_negatives"]["suspected_pairs"] < counted
        said = [line for line in result.stderr.splitlines() if "leaves the groups out" in line]
        assert len(said) == 1
        assert reason in said[0]
