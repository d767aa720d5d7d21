import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from gcbs_cli.plan_file import save
from gcbs_cli.plan_file.manifest import (
    Manifest,
    entry_for,
    manifest_path,
    permutation_hash,
    read_manifest,
    write_manifest,
)
from gcbs_cli.plan_file.permutation import read_permutation, write_permutation
from gcbs_cli.plan_file.save import check_plan_output, save_plan
from gcbs_cli.system.errors import BadInput, GcbsError

ROWS = 200
KILLS = 40
ENDLESS = 1_000_000  # plans; the writer is killed long before
TESTS = Path(__file__).parent


def order(seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(ROWS)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_whole(path: Path) -> None:
    """The permutation at `path` is whole and its manifest has its entry."""
    perm = read_permutation(path, ROWS)
    manifest = read_manifest(path)
    assert manifest is not None
    assert entry_for(manifest, perm) is not None


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".txt"])
def test_a_plan_and_its_manifest(tmp_path: Path, make_entry, suffix: str) -> None:
    path = tmp_path / f"perm{suffix}"
    for seed in range(3):
        save_plan(path, order(seed), make_entry(order(seed)))
        assert read_permutation(path, ROWS).tolist() == order(seed).tolist()
        assert read_manifest(path) == Manifest(entries=[make_entry(order(seed))])
    assert names(tmp_path) == [path.name, manifest_path(path).name]


def test_to_stdout_there_is_no_manifest(
    tmp_path: Path, make_entry, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_plan("-", order(0), make_entry(order(0)))
    assert capsysbinary.readouterr().out == "".join(f"{i}\n" for i in order(0)).encode()
    assert names(tmp_path) == []


def test_only_a_permutation_and_its_own_entry_are_saved(tmp_path: Path, make_entry) -> None:
    twice = order(0)
    twice[1] = twice[0]
    with pytest.raises(BadInput, match="more than once"):
        save_plan(tmp_path / "perm.npy", twice, make_entry(twice))
    with pytest.raises(BadInput, match="of another permutation"):
        save_plan(tmp_path / "perm.npy", order(0), make_entry(order(1)))
    assert names(tmp_path) == []


def test_both_entries_are_there_while_the_permutation_is_replaced(
    tmp_path: Path, make_entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "perm.npy"
    save_plan(path, order(0), make_entry(order(0)))
    seen = []

    def look(*arguments: object) -> None:
        manifest = read_manifest(path)
        assert manifest is not None
        seen.extend(entry.permutation_hash for entry in manifest.entries)
        write_permutation(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(save, "write_permutation", look)
    save_plan(path, order(1), make_entry(order(1)))
    assert seen == [permutation_hash(order(1)), permutation_hash(order(0))]


@pytest.mark.parametrize("old", [True, False], ids=["over a plan", "a first plan"])
@pytest.mark.parametrize("step", ["write_manifest", "write_permutation"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, GcbsError])
def test_a_failure_leaves_the_old_pair_or_the_new_one(
    tmp_path: Path,
    make_entry,
    monkeypatch: pytest.MonkeyPatch,
    old: bool,
    step: str,
    when: str,
    stop: type[BaseException],
) -> None:
    path = tmp_path / "perm.npy"
    if old:
        save_plan(path, order(0), make_entry(order(0)))
    files = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    work = getattr(save, step)

    def fail(*arguments: object) -> None:
        if when == "after":
            work(*arguments)
        raise stop

    monkeypatch.setattr(save, step, fail)
    with pytest.raises(stop):
        save_plan(path, order(1), make_entry(order(1)))
    if (step, when) == ("write_permutation", "after"):
        assert_whole(path)
        assert read_permutation(path).tolist() == order(1).tolist()
    else:
        assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == files


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".txt"])
def test_a_disk_that_is_really_full(small_disk: Path, make_entry, suffix: str) -> None:
    path = small_disk / f"perm{suffix}"
    larger = np.random.default_rng(1).permutation(50_000)
    with pytest.raises(GcbsError, match="no space left on the disk"):
        save_plan(path, larger, make_entry(larger))
    assert names(small_disk) == []
    save_plan(path, order(0), make_entry(order(0)))
    files = {name: (small_disk / name).read_bytes() for name in names(small_disk)}
    with pytest.raises(GcbsError, match="no space left on the disk"):
        save_plan(path, larger, make_entry(larger))
    assert {name: (small_disk / name).read_bytes() for name in names(small_disk)} == files


def test_a_plan_that_is_saved_is_no_failure_when_the_last_step_fails(
    tmp_path: Path, make_entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "perm.npy"
    save_plan(path, order(0), make_entry(order(0)))

    def full_at_the_end(path: Path, entries: list) -> None:
        if len(entries) == 1:
            raise GcbsError("full")
        write_manifest(path, entries)

    monkeypatch.setattr(save, "write_manifest", full_at_the_end)
    save_plan(path, order(1), make_entry(order(1)))
    assert_whole(path)
    assert read_permutation(path).tolist() == order(1).tolist()


@pytest.mark.parametrize(
    "text", ["{", '{"schema": "gcbs.manifest", "schema_version": "9.0"}'], ids=["damaged", "newer"]
)
def test_a_manifest_that_cannot_be_read_needs_force(tmp_path: Path, make_entry, text: str) -> None:
    path = tmp_path / "perm.npy"
    manifest_path(path).write_text(text)
    with pytest.raises(BadInput, match="; use --force to replace it"):
        check_plan_output(path, force=False)
    check_plan_output(path, force=True)
    save_plan(path, order(0), make_entry(order(0)))
    assert_whole(path)


def test_the_output_is_checked_before_any_work(tmp_path: Path, make_entry) -> None:
    check_plan_output("-", force=False)
    check_plan_output(tmp_path / "perm.npy", force=False)
    with pytest.raises(BadInput, match="names no permutation format"):
        check_plan_output(tmp_path / "perm.json", force=True)
    with pytest.raises(BadInput, match="does not exist"):
        check_plan_output(tmp_path / "missing" / "perm.npy", force=True)
    manifest_path(tmp_path / "perm.npy").mkdir()
    with pytest.raises(BadInput, match=r"perm.npy.manifest.json: is a folder"):
        check_plan_output(tmp_path / "perm.npy", force=True)
    save_plan(tmp_path / "other.npy", order(0), make_entry(order(0)))
    with pytest.raises(BadInput, match=r"other.npy: exists; use --force to replace it"):
        check_plan_output(tmp_path / "other.npy", force=False)
    (tmp_path / "other.npy").unlink()
    check_plan_output(tmp_path / "other.npy", force=False)


def test_a_save_does_not_come_between_the_steps_of_another(
    tmp_path: Path, make_entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "perm.npy"
    first_has_written, second_is_done = threading.Event(), threading.Event()

    def pause_after_the_first(*arguments: object) -> None:
        write_permutation(*arguments)  # type: ignore[arg-type]
        if not first_has_written.is_set():
            first_has_written.set()
            second_is_done.wait(0.3)

    monkeypatch.setattr(save, "write_permutation", pause_after_the_first)
    first = threading.Thread(target=save_plan, args=(path, order(0), make_entry(order(0))))
    first.start()
    assert first_has_written.wait(10)
    save_plan(path, order(1), make_entry(order(1)))
    second_is_done.set()
    first.join()
    assert_whole(path)


def test_without_locks_it_saves_all_the_same(tmp_path: Path, make_entry, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError("no locks")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    save_plan(tmp_path / "perm.npy", order(0), make_entry(order(0)))
    assert_whole(tmp_path / "perm.npy")


def test_a_folder_that_is_gone(tmp_path: Path, make_entry) -> None:
    with pytest.raises(GcbsError, match="folder was removed meanwhile"):
        save_plan(tmp_path / "gone" / "perm.npy", order(0), make_entry(order(0)))


# One process that has imported everything forks a writer for each seed it is sent, so that a kill costs milliseconds.
# (The first table of a process imports pandas, where there is one: half a second in which there is nothing to hit.)
# It reaps a writer when it is asked to: until then the number of one that has ended is nobody else's.
NURSERY = """
import os, sys
sys.path[:0] = [{tests!r}, {root!r}]
from pathlib import Path
import pyarrow.parquet
from conftest import build_entry
from test_plan_file_save import order
from gcbs_cli.plan_file.save import save_plan

pyarrow.table({{"index": order(0)}})
print("ready", flush=True)
while line := sys.stdin.readline():
    seed, rounds, target = line.split(maxsplit=2)
    child = os.fork()
    if child == 0:
        for number in range(int(rounds)):
            perm = order(int(seed) + number)
            save_plan(Path(target.strip()), perm, build_entry(perm))
        os._exit(0)
    print(child, flush=True)
    sys.stdin.readline()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Nursery:
    """Starts writers, one after another, and tells how each ended."""

    def __init__(self) -> None:
        script = NURSERY.format(tests=str(TESTS), root=str(TESTS.parents[1]))
        command = [sys.executable, "-c", script]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read_line()

    def _read_line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process that starts writers has ended"
        return line.strip()

    def _send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def start(self, seed: int, rounds: int, target: Path) -> int:
        """A writer of so many plans; returns the number of its process."""
        self._send(f"{seed} {rounds} {target}")
        return int(self._read_line())

    def end(self) -> int:
        """Wait for the writer to end: its exit code, or minus the signal."""
        self._send("")
        return int(self._read_line())

    def close(self) -> None:
        self.process.communicate()


def wait_until(happened: Callable[[], bool]) -> None:
    """Moments count from what the writer did, not from its start: a busy machine may let it wait for long."""
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline, "the writer has written nothing for a minute"
        time.sleep(0.0005)


@pytest.fixture(scope="module")
def nurseries() -> Iterator[tuple[Nursery, Nursery]]:
    pair = (Nursery(), Nursery())
    yield pair
    for nursery in pair:
        nursery.close()


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_killed_at_any_moment(tmp_path: Path, make_entry, nurseries: tuple[Nursery, Nursery], suffix: str) -> None:
    path = tmp_path / f"perm{suffix}"
    save_plan(path, order(0), make_entry(order(0)))
    moments = random.Random(7)
    left_behind = 0
    for kill in range(KILLS):
        before = path.stat().st_ino
        writer = nurseries[0].start(1000 * (kill + 1), ENDLESS, path)
        wait_until(lambda before=before: path.stat().st_ino != before)  # type: ignore[misc]
        time.sleep(moments.uniform(0.0, 0.02))
        os.kill(writer, signal.SIGKILL)
        assert nurseries[0].end() == -signal.SIGKILL
        assert_whole(path)
        left_behind += sum(name.endswith(".gcbs-tmp") for name in names(tmp_path))
    assert left_behind, "no kill hit a write: the moments say nothing"
    save_plan(path, order(0), make_entry(order(0)))
    assert names(tmp_path) == [path.name, manifest_path(path).name]


def test_two_writers_at_once(tmp_path: Path, nurseries: tuple[Nursery, Nursery]) -> None:
    path = tmp_path / "perm.npy"
    for number, nursery in enumerate(nurseries):
        nursery.start(1000 * number, 30, path)
    for nursery in nurseries:
        assert nursery.end() == 0
    assert_whole(path)
    assert len(json.loads(manifest_path(path).read_text())["entries"]) == 1
    assert names(tmp_path) == ["perm.npy", "perm.npy.manifest.json"]


def test_a_first_plan_killed_at_any_moment(tmp_path: Path, nurseries: tuple[Nursery, Nursery]) -> None:
    moments = random.Random(8)
    for kill in range(10):
        folder = tmp_path / str(kill)
        folder.mkdir()
        path = folder / "perm.npy"
        writer = nurseries[0].start(kill, 1, path)
        wait_until(lambda folder=folder: bool(names(folder)))  # type: ignore[misc]
        time.sleep(moments.uniform(0.0, 0.003))
        os.kill(writer, signal.SIGKILL)
        assert nurseries[0].end() in (0, -signal.SIGKILL)
        if path.exists():
            assert_whole(path)
        else:
            check_plan_output(path, force=False)
