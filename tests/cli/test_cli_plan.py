"""`gcbs plan` through the command line, on real embeddings."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from running import LONGEST_WAIT, run_gcbs, run_python
from unit_data import numbers_of

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.plan_file.manifest import permutation_hash
from tests.cli.conftest import entry_of


def test_plan_writes_permutation_and_manifest(gcbs, sample):
    result = gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-k", 32, "--seed", 3)
    assert result.exit_code == 0, result.output
    for word in ("pairs", "batches", "method", "hard pairs", "in batches", "random order", "seconds", "written"):
        assert word in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    perm = np.load("perm.npy", allow_pickle=False)
    assert perm.dtype == np.int64
    assert sorted(perm.tolist()) == list(range(1500))
    entry = entry_of()
    assert entry["permutation_hash"] == permutation_hash(perm)
    assert [entry[name] for name in ("batch_size", "seed", "rows", "method")] == [32, 3, 1500, "rcm"]
    assert entry["command"][:3] == ["gcbs", *sys.argv[1:]][:3]
    hard = _grid_numbers() > entry["quantile"]["number"]
    np.fill_diagonal(hard, False)
    assert entry["quantile"]["achieved"] == pytest.approx(1 - hard.sum() / (1500 * 1499), abs=1e-9)
    assert entry["quantile"]["per_row"] == hard.sum() / 1500 == 32
    either = hard | hard.T
    assert entry["graph"]["edges"] == either.sum() // 2
    place = np.argsort(perm)
    rows, cols = np.nonzero(either)
    for name, at in (("plan", place), ("identity", np.arange(1500))):
        assert entry["bandwidth"][name] == np.abs(at[rows] - at[cols]).max()
    assert entry["in_batch_edge_share"]["plan"] == pytest.approx((place[rows] // 32 == place[cols] // 32).mean())


def _grid_numbers():
    """The whole numbers that the similarities of the sample are rounded to, in int64."""
    sides = (np.load(name).astype(np.float64) for name in ("x.npy", "y.npy"))
    units = ((side / np.linalg.norm(side, axis=1, keepdims=True)).astype(np.float32) for side in sides)
    return numbers_of(PairedRows(*units).grid)


def test_stdout_carries_the_indices_and_nothing_else_for_a_report_to_read(gcbs, folder):
    gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy")
    result = run_gcbs("plan", "x.npy", "y.npy", "-o", "-", cwd=folder)
    assert result.returncode == 0
    assert [int(line) for line in result.stdout.splitlines()] == np.load(folder / "perm.npy").tolist()
    assert "hard pairs" in result.stderr
    assert sorted(os.listdir(folder)) == ["perm.npy", "perm.npy.manifest.json", "x.npy", "y.npy"]
    words = ("report", "x.npy", "y.npy", "--json", "-p")
    piped, alone = gcbs(*words, "-", stdin=result.stdout), gcbs(*words, "perm.npy")
    assert json.loads(piped.stdout) | {"timings": {}} == json.loads(alone.stdout) | {"timings": {}}


def test_shards_are_read_in_natural_order(gcbs, folder):
    Path("shards").mkdir()
    for number, part in enumerate(np.split(np.load("x.npy"), range(25, 300, 25))):
        np.save(f"shards/part-{number}.npy", part)
    notes = gcbs("plan", "shards", "y.npy", "-o", "perm.npy").stderr
    assert "shards: 12 files, read from shards/part-0.npy to shards/part-11.npy" in notes


def test_dry_run_writes_nothing_and_forecasts(gcbs, sample):
    before = sorted(os.listdir())
    result = gcbs("plan", "x.npy", "y.npy", "--dry-run", "--json")
    assert result.exit_code == 0
    assert sorted(os.listdir()) == before
    found = json.loads(result.stdout)
    gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-q")
    quantile = entry_of()["quantile"]
    assert found["threshold"] == quantile["threshold"]
    assert found["entries"] == pytest.approx((1 - quantile["achieved"]) * 1500**2, rel=0.01)


def test_report_option_equals_the_report_command(gcbs, sample):
    assert gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "--report", "report.json", "-q").exit_code == 0
    written = json.loads(Path("report.json").read_text())
    printed = json.loads(gcbs("report", "x.npy", "y.npy", "-p", "perm.npy", "--json").stdout)
    assert {**written, "timings": {}} == {**printed, "timings": {}}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_interruption_leaves_no_file(tmp_path, number):
    generator = np.random.default_rng(0)
    for side in "xy":
        np.save(tmp_path / f"{side}.npy", generator.standard_normal((50_000, 256), dtype=np.float32))
    process = subprocess.Popen(
        [sys.executable, "-m", "gcbs_cli", "plan", "x.npy", "y.npy", "-o", "perm.npy"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # a pass of seconds, also where there are many cores
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # tests in the background of a shell ignore Ctrl-C
    )
    assert process.stderr is not None
    assert "expecting" in process.stderr.readline()  # the pass begins
    time.sleep(0.2)
    process.send_signal(number)
    _, said = process.communicate(timeout=LONGEST_WAIT)
    assert process.returncode == (130 if number == signal.SIGINT else 143), said
    assert "Traceback" not in said
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "y.npy"]


def test_help_is_quick_and_imports_no_numerics():
    code = (
        "import sys; from typer.testing import CliRunner; from gcbs_cli.cli.app import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        "print([m for m in ('numpy', 'torch', 'scipy', 'pyarrow', 'pydantic', 'numba') if m in sys.modules])"
    )
    assert run_python(code) == "[]\n"


def test_ranks_are_recorded_and_their_full_batches_stated(gcbs, folder):
    words = ("plan", "x.npy", "y.npy", "-k", "16", "-f")  # 300 pairs: 18 full batches
    named = ("world_size", "gather")
    for options, expected in [
        (("--world-size", 4, "--gather"), (4, True)),
        (("--world-size", 4), (4, False)),
        ((), (None, False)),
    ]:
        result = json.loads(gcbs(*words, *options, "--json").stdout)
        assert tuple(map(result.get, named)) == expected
    assert "4: 4 full batches each" in gcbs(*words, "--world-size", 4).stdout


def plan(gcbs, *words):
    result = gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-k", 16, "-f", *words)
    assert result.exit_code == 0, result.output
    return np.load("perm.npy"), entry_of()


def report(gcbs, *words):
    result = gcbs("report", "x.npy", "y.npy", "-p", "perm.npy", "--json", "--trials", 2, *words)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_refined_plan_is_recorded_and_closes_more(gcbs, folder):
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


def test_report_reads_the_groups_again_that_the_manifest_names(gcbs, folder):
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
    for result, reason in ((changed, "g.csv: holds different groups"), (gcbs(*command), "g.csv: file not found")):
        assert result.exit_code == 0
        assert json.loads(result.stdout)["false_negatives"]["suspected_pairs"] < counted
        said = [line for line in result.stderr.splitlines() if "leaves the groups out" in line]
        assert len(said) == 1
        assert reason in said[0]


@pytest.mark.parametrize(("threshold", "warned"), [(0.99, True), (0.3, False)])
@pytest.mark.parametrize("parts", [(), ("--partitions", 2)], ids=["whole", "in parts"])
def test_a_plan_says_where_hardly_any_row_has_a_hard_pair(gcbs, folder, threshold, warned, parts):
    result = gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-k", 16, "--threshold", threshold, *parts)
    assert (" of 300 rows have no hard pair" in " ".join(result.stderr.split())) is warned
