"""compare makes the plans that `gcbs plan` makes; with --train, and in tune, a command that works ends it."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from gcbs_cli.comparison import trial


def test_compare_shows_every_method_and_the_preset_by_falling_masked_reduction(gcbs, folder):
    words = ("compare", "x.npy", "y.npy", "--methods", "random,rcm,train,rcm+refine", "-k", 16, "--trials", 2)
    found = json.loads(gcbs(*words, "--json").stdout)
    reductions = {line["method"]: line["gap"]["masked"]["reduction"] for line in found["methods"]}
    assert set(reductions) == {"random", "rcm", "rcm+refine", "--preset train"}
    assert list(reductions.values()) == sorted(reductions.values(), reverse=True)
    Path("perm.npy").touch()
    *table, _, said, command = gcbs(*words, "--html", "page.html").stdout.splitlines()
    assert max(map(len, table)) <= 80
    page = Path("page.html").read_text()
    assert re.findall(r'<th scope="row".*?>(.*?)</th>', page) == list(reductions)
    assert re.findall(r'<span class="number">(.*?)</span>', page) == [f"{value:.1%}" for value in reductions.values()]
    assert page.count(f"<code>{command}</code>") == 1
    assert "--train" in said
    assert command == found["command"].replace("-o perm.npy", "-o perm-2.npy")
    assert gcbs(*shlex.split(command)[1:]).exit_code == 0


def test_compare_says_what_is_not_installed(gcbs, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    result = gcbs("compare", "x.npy", "y.npy", "-k", 16, "--trials", 1)
    assert result.exit_code == 0, result.output
    assert "left out: --method metis: pymetis is not installed" in " ".join(result.stderr.split())
    assert "metis" not in result.stdout
    monkeypatch.delitem(sys.modules, "gcbs_cli.comparison.heads", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    result = gcbs("compare", "x.npy", "y.npy", "-k", 16, "--train")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("--train: torch is not installed; run: pip install torch\n")


def test_compare_makes_the_plans_that_the_same_options_make(gcbs, folder):
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


TRAINED = {
    "compare": ("compare", "--train", "--no-duplicates", "--no-normalize"),
    "compare with texts": ("compare", "--train", "--text", "t.csv", "--text-column", "text", "-M", "words"),
    "tune": ("tune",),
}


@pytest.mark.parametrize("words", TRAINED.values(), ids=TRAINED)
def test_training_prints_a_line_a_plan_the_verdict_and_a_command_that_works(gcbs, folder, monkeypatch, words):
    monkeypatch.setattr(trial, "EPOCHS", 1)
    monkeypatch.setattr(trial, "CERTAIN", -100.0)  # any gain counts
    Path("t.csv").write_text("\n".join(["n,text", *(f"{i},{'sort it' if i % 3 else 'open it'}" for i in range(300))]))
    Path("g.txt").write_text("\n".join(str(i // 2) for i in range(300)))
    given = (words[0], "x.npy", "y.npy", *words[1:], "-k", 16, "--groups", "g.txt", "--budget", "0.1s")
    found = json.loads(gcbs(*given, "--html", "page.html", "--json").stdout)
    plans = [line["method"] for line in found["methods"]]
    gains = [line["gain"] for line in found["methods"]]
    assert gains == sorted(gains, reverse=True)
    page = Path("page.html").read_text()
    assert re.findall(r'<th scope="row".*?>(.*?)</th>', page) == plans
    assert f"Take {found['plan']}." in page
    assert len(plans) == {"compare": 3, "tune": 11}.get(" ".join(words[:1]), 0) - ("--text" in words)
    assert found["trial"] | {"train_rows": 210, "queries": 60, "epochs": 1, "seeds": 2} == found["trial"]
    (random,) = (line for line in found["methods"] if line["method"] == "random")
    for line in found["methods"]:
        by_seed = [ours["mrr"] - theirs["mrr"] for ours, theirs in zip(line["runs"], random["runs"], strict=True)]
        assert line["gain"] == pytest.approx(sum(by_seed) / 2)
    assert found["verdict"].startswith(f"{found['plan']}: ")
    assert found["verdict"].endswith("MRR over random: plan")
    (chosen,) = (line for line in found["methods"] if line["method"] == found["plan"])
    assert all(word in found["command"] for word in (chosen["options"], "--groups g.txt"))
    assert gcbs(*shlex.split(found["command"])[1:]).exit_code == 0
    shown = gcbs(*given).stdout.splitlines()
    assert any(plan in line for line in shown for plan in plans)
    assert shown[-1].endswith("-o perm-2.npy")
