"""A file that changes between its reading and the end of the work is noticed, and nothing is written."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gcbs_cli.cli import plan as planning
from gcbs_cli.cli import report as reporting
from tests.cli.conftest import Gcbs


def _grow() -> None:
    with open("y.npy", "ab") as file:
        file.write(b"\0")


def _touch() -> None:
    os.utime("y.npy", (1, 1))


def _replace() -> None:
    times = os.stat("y.npy").st_mtime_ns
    np.save("new.npy", np.load("y.npy")[::-1])
    os.utime("new.npy", ns=(times, times))
    os.replace("new.npy", "y.npy")


def _remove() -> None:
    os.unlink("y.npy")


CHANGES: dict[str, Callable[[], None]] = {"grow": _grow, "touch": _touch, "replace": _replace, "remove": _remove}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("output", ["perm.npy", "-"])
def test_during_a_plan(gcbs: Gcbs, folder: Path, monkeypatch: pytest.MonkeyPatch, change, output: str) -> None:
    work = planning.make_plan

    def then_change(*args, **kwargs):
        result = work(*args, **kwargs)
        change()
        return result

    monkeypatch.setattr(planning, "make_plan", then_change)
    ended = gcbs("plan", "x.npy", "y.npy", "-o", output, "--report", "report.json", "-q")
    assert ended.exit_code == 2, ended.output
    assert ended.stdout == ""
    assert ended.stderr.startswith("gcbs: y.npy: found that it changed")
    assert len(ended.stderr.splitlines()) == 1
    assert not {"perm.npy", "report.json"} & set(os.listdir())


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_during_a_report(gcbs: Gcbs, folder: Path, monkeypatch: pytest.MonkeyPatch, change) -> None:
    work = reporting.measure

    def then_change(*args, **kwargs):
        result = work(*args, **kwargs)
        change()
        return result

    monkeypatch.setattr(reporting, "measure", then_change)
    ended = gcbs("report", "x.npy", "y.npy", "-o", "report.json", "--json")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert not Path("report.json").exists()


def test_other_bytes_of_the_same_size_and_time_are_found_by_check(gcbs: Gcbs, folder: Path) -> None:
    assert gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-q").exit_code == 0
    times = os.stat("y.npy").st_mtime_ns
    array = np.load("y.npy", mmap_mode="r+")
    array[7, 3] += 1
    array.flush()
    del array
    os.utime("y.npy", ns=(times, times))
    ended = gcbs("check", "perm.npy", "x.npy", "y.npy")
    assert ended.exit_code == 1
    assert "Y is not what the plan was made from" in ended.stderr
