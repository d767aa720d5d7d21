import errno
import fcntl
import os
import resource
import stat
import subprocess
import time
from pathlib import Path
from typing import BinaryIO

import pytest

from gcbs_cli.plan_file import atomic
from gcbs_cli.plan_file.atomic import atomic_file, check_writable, clear_abandoned, write_atomically
from gcbs_cli.system.errors import BadInput, GcbsError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def dead_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_the_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with atomic_file(path) as file:
        file.write(b"half")
        file.flush()
        assert not path.exists()
        (temporary,) = tmp_path.iterdir()
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
        assert temporary.name.startswith(f".out.txt.{os.getpid()}.")
        assert temporary.name.endswith(".gcbs-tmp")
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"
    assert names(tmp_path) == ["out.txt"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664), (0o000, 0o666)])
def test_the_umask_decides_the_mode(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "out", lambda file: file.write(b"x"))
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == mode


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, ValueError, BadInput, BrokenPipeError, MemoryError])
def test_any_exception_leaves_the_old_file_and_nothing_else(tmp_path: Path, stop: type[BaseException]) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def write(file: BinaryIO) -> None:
        file.write(b"new")
        raise stop

    with pytest.raises(stop):
        write_atomically(path, write)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (errno.ENOSPC, "no space left on the disk"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "disk reported an error"),
        (errno.EPERM, "no permission"),
        (errno.EBUSY, "busy"),
    ],
)
def test_a_failing_disk_is_one_line_and_leaves_nothing(tmp_path: Path, code: int, says: str) -> None:
    path = tmp_path / "out"

    def write(file: BinaryIO) -> None:
        file.write(b"new")
        raise OSError(code, os.strerror(code))

    with pytest.raises(GcbsError) as caught:
        write_atomically(path, write)
    assert not isinstance(caught.value, BadInput)
    message = str(caught.value)
    assert message.startswith(f"cannot write {path}: ")
    assert says in message.lower()
    assert "\n" not in message
    assert names(tmp_path) == []


def test_a_disk_that_is_really_full(small_disk: Path) -> None:
    path = small_disk / "out"
    write_atomically(path, lambda file: file.write(b"old"))
    with pytest.raises(GcbsError, match="no space left on the disk"):
        write_atomically(path, lambda file: file.write(b"x" * (1 << 17)))
    assert path.read_bytes() == b"old"
    assert names(small_disk) == ["out"]


def test_a_file_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "out"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, hard))
    try:
        with pytest.raises(GcbsError, match="ulimit -f"):
            write_atomically(path, lambda file: file.write(b"x" * (1 << 14)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == []


def test_the_folder_is_removed_meanwhile(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()

    def write(file: BinaryIO) -> None:
        file.write(b"new")
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()

    with pytest.raises(GcbsError, match="was removed meanwhile"):
        write_atomically(folder / "out", write)


def test_a_folder_that_cannot_be_synced_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync

    def files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)
    write_atomically(tmp_path / "out", lambda file: file.write(b"x"))
    assert (tmp_path / "out").read_bytes() == b"x"


def test_what_killed_runs_left_is_cleared_at_the_next_write(tmp_path: Path) -> None:
    left = tmp_path / f".out.{dead_process()}.00ff.gcbs-tmp"
    left.write_bytes(b"half")
    kept = [
        tmp_path / f".other.{dead_process()}.00ff.gcbs-tmp",
        tmp_path / f".out.manifest.json.{dead_process()}.00ff.gcbs-tmp",
        tmp_path / ".out.notes.gcbs-tmp",
    ]
    for path in kept:
        path.write_bytes(b"not ours")
    write_atomically(tmp_path / "out", lambda file: file.write(b"new"))
    assert names(tmp_path) == sorted(["out", *(path.name for path in kept)])


def test_what_a_run_is_still_writing_stays(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with atomic_file(path) as slow:
        slow.write(b"slow")
        slow.flush()
        (temporary,) = tmp_path.iterdir()
        os.utime(temporary, (0, 0))
        write_atomically(path, lambda file: file.write(b"quick"))
        assert path.read_bytes() == b"quick"
    assert path.read_bytes() == b"slow"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("process", "age", "stays"),
    [("dead", 0, False), ("alive", 0, True), ("alive", 3700, False)],
    ids=["process gone", "process alive", "an hour old"],
)
def test_without_locks_process_and_age_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: str, age: float, stays: bool
) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    number = os.getpid() if process == "alive" else dead_process()
    left = tmp_path / f".out.{number}.00ff.gcbs-tmp"
    left.write_bytes(b"half")
    os.utime(left, (time.time() - age,) * 2)
    clear_abandoned(tmp_path / "out")
    assert left.exists() is stays


def test_taken_for_abandoned_while_it_is_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, stolen = fcntl.flock, []

    def steal_first(descriptor: int, operation: int) -> None:
        if not stolen:
            stolen.extend(tmp_path.iterdir())
            stolen[0].unlink()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", steal_first)
    write_atomically(tmp_path / "out", lambda file: file.write(b"whole"))
    assert stolen
    assert (tmp_path / "out").read_bytes() == b"whole"
    assert names(tmp_path) == ["out"]


def test_the_longest_name_that_a_folder_takes(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127)
    write_atomically(path, lambda file: file.write(b"x"))
    assert names(tmp_path) == [path.name]
    with pytest.raises(GcbsError, match="name is too long"):
        write_atomically(tmp_path / ("é" * 128), lambda file: file.write(b"x"))


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_folders_and_devices_are_never_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "special"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    for attempt in (
        lambda: check_writable(path, force=True),
        lambda: write_atomically(path, lambda file: file.write(b"x")),
    ):
        with pytest.raises(BadInput, match="is a folder" if kind == "folder" else "is not a regular file"):
            attempt()
    assert names(tmp_path) == ["special"]


def test_a_link_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"kept")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("link", "loop"):
        with pytest.raises(BadInput, match="exists; use --force to replace it"):
            check_writable(tmp_path / name, force=False)
        check_writable(tmp_path / name, force=True)
        write_atomically(tmp_path / name, lambda file: file.write(b"new"))
        assert (tmp_path / name).read_bytes() == b"new"
    assert (tmp_path / "target").read_bytes() == b"kept"


def test_check_writable_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    cases = [
        (tmp_path / "file", "exists; use --force to replace it"),
        (tmp_path / "missing" / "out", r"the output folder .*missing does not exist; create it first"),
        (tmp_path / "file" / "out", "no longer a folder|is not a folder"),
        (tmp_path / ("a" * 300), "name is too long"),
        (Path("a\0b"), "NUL"),
    ]
    for path, says in cases:
        with pytest.raises(BadInput, match=says) as caught:
            check_writable(path, force=False)
        assert "\n" not in str(caught.value)
    check_writable(tmp_path / "file", force=True)
    check_writable(tmp_path / "new", force=False)
    check_writable(Path("-"), force=False)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(BadInput, match="is not writable; write to another one"):
        check_writable(tmp_path / "new", force=False)
    assert names(tmp_path) == ["file"]


def test_a_read_only_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o555)
    monkeypatch.chdir(folder)
    user = os.geteuid()
    if user == 0:  # root may write anywhere
        os.seteuid(65534)
    try:
        with pytest.raises(GcbsError, match="no permission"):
            write_atomically(Path("out"), lambda file: file.write(b"x"))
    finally:
        os.seteuid(user)
    assert names(folder) == []


def test_the_advice_has_a_line_for_every_code() -> None:
    assert all(line and "\n" not in line for line in atomic._ADVICE.values())
