"""Plan, report and check again and again over changing data: memory, files and descriptors must not grow.

The same input gives the same bytes, whichever way it is planned.
"""

import gc
import os
import resource
import tempfile
from pathlib import Path

import numpy as np
import pytest
from running import run_gcbs
from typer.testing import CliRunner

from gcbs_cli import plan, report
from gcbs_cli.cli.app import app

DATA_SETS = 7
"""They differ in size; cycle n has the n-th of them, and what comes again must be planned alike."""
MARKS = 5
ALLOWED_GROWTH = 32 * 2**20
COMMANDS = (
    "plan x.npy y.npy -k 32 -o perm.npy -q --force",
    "report x.npy y.npy -k 32 -p perm.npy -o report.json --trials 2 -q --force",
    "check x.npy y.npy -p perm.npy -q",
)
OPTIONS = ("", "--graph top-m --refine", "--fn-margin 0.95 --refine", "--partitions 2", "--method random")
"""Settings of the plans, in turn with the data sets."""


def make_pairs(number):
    """Two sides of related rows, of the data set of a cycle."""
    rng = np.random.default_rng(number % DATA_SETS)
    x = rng.normal(size=(500 + 100 * (number % DATA_SETS), 32)).astype(np.float32)
    return x, x + rng.normal(size=x.shape).astype(np.float32)


def by_api(number):
    """The plan of a cycle on arrays, with a report on it."""
    x, y = make_pairs(number)
    words = [option.split() for option in OPTIONS[number % len(OPTIONS)].split("--")[1:]]
    settings = {word[0].replace("-", "_"): word[1] if word[1:] else True for word in words}
    perm = plan(x, y, batch_size=32, **settings).perm
    assert report(x, y, perm, batch_size=32, trials=2).n == len(x)
    return perm


def by_commands(run):
    """A function that gives the plan of a cycle by its commands, each run by `run`."""

    def cycle(number):
        for side, values in zip("xy", make_pairs(number), strict=True):
            np.save(f"{side}.npy", values)
        for words in COMMANDS:
            words = f"{words} {OPTIONS[number % len(OPTIONS)] if words.startswith('plan') else ''}"
            run(words.split())
        return np.load("perm.npy")

    return cycle


def in_this_process(words):
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 0, ended.output


def in_a_process(words):
    ended = run_gcbs(*words)
    assert ended.returncode == 0, ended.stderr


WAYS = {
    "Python": (by_api, 300),
    "one process": (by_commands(in_this_process), 300),
    "processes": (by_commands(in_a_process), 8),
}


@pytest.mark.parametrize("name", WAYS)
def test_nothing_grows_and_no_plan_changes(name, place, tmp_path, monkeypatch, seeds):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    cycle, default = WAYS[name]
    plans, marks = {}, []
    for number in range(len(OPTIONS)):
        cycle(number)  # libraries fill their caches, loops are compiled
    cycles = seeds(default)
    for number in cycles:
        perm = cycle(number).tobytes()
        assert plans.setdefault((number % DATA_SETS, number % len(OPTIONS)), perm) == perm
        if (number + 1) % max(1, len(cycles) // MARKS) == 0:
            gc.collect()
            marks.append(held())
            print(f"{name}: {number + 1} cycles: {marks[-1][0] / 2**20:.1f} MiB, {marks[-1][1:]} descriptors and files")
    assert marks[-1][0] - marks[0][0] < ALLOWED_GROWTH
    assert marks[-1][1:] == marks[0][1:]
    assert not [path.name for path in temporary.iterdir() if "gcbs" in path.name]


def held():
    """Bytes of memory and open descriptors of this process, and files in its folder."""
    memory = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return memory, len(os.listdir("/proc/self/fd")), len(os.listdir())


def test_every_way_gives_the_same_plan(place):
    for number in range(len(OPTIONS)):
        perms = [cycle(number) for cycle, _ in WAYS.values()]
        assert all(np.array_equal(perms[0], perm) for perm in perms)
