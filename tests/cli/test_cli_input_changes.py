"""A file that changes between its reading and the end of the work is noticed, and nothing is written."""

import os
from pathlib import Path

import numpy as np
import pytest

from gcbs_cli.data.reading import PairStream


def _replace():
    times = os.stat("y.npy").st_mtime_ns
    np.save("new.npy", np.load("y.npy")[::-1])
    os.utime("new.npy", ns=(times, times))
    os.replace("new.npy", "y.npy")


CHANGES = {
    "grow": lambda: Path("y.npy").write_bytes(Path("y.npy").read_bytes() + b"\0"),
    "touch": lambda: os.utime("y.npy", (1, 1)),
    "replace": _replace,
    "remove": lambda: os.unlink("y.npy"),
}


PLAN = "plan x.npy y.npy -o perm.npy --report report.json -q"
OTHERS = [
    "plan x.npy y.npy -o - -q",
    "report x.npy y.npy -o report.json --json",
    "compare x.npy y.npy --methods random,rcm --json",
    "compare x.npy y.npy --train --budget 0.01 --json",
    "mine x.npy y.npy -o report.json.jsonl --json",
    "check -p p.npy x.npy y.npy --json",
]


@pytest.mark.parametrize(
    ("command", "change"), [*((PLAN, change) for change in CHANGES), *((command, "replace") for command in OTHERS)]
)
def test_a_change_during_the_work_is_noticed(gcbs, folder, monkeypatch, command, change):
    read = PairStream.read

    def then_change(stream):
        result = read(stream)
        CHANGES[change]()
        return result

    monkeypatch.setattr(PairStream, "read", then_change)
    monkeypatch.setattr("gcbs_cli.comparison.trial.EPOCHS", 1)
    np.save("p.npy", np.arange(300))
    ended = gcbs(*command.split())
    assert (ended.exit_code, ended.stdout) == (2, "")
    noticed = "file not found" if change == "remove" else "changed"
    assert ended.stderr.splitlines()[-1].startswith(f"gcbs: y.npy: {noticed}")
    assert not {"perm.npy", "report.json", "report.json.jsonl"} & set(os.listdir())


def test_other_bytes_of_the_same_size_and_time_are_found_by_check(gcbs, folder):
    assert gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-q").exit_code == 0
    times = os.stat("y.npy").st_mtime_ns
    array = np.load("y.npy")
    array[7, 3] += 1
    np.save("y.npy", array)
    os.utime("y.npy", ns=(times, times))
    ended = gcbs("check", "-p", "perm.npy", "x.npy", "y.npy")
    assert ended.exit_code == 1
    assert "Y is not what the plan was made from" in ended.stderr
