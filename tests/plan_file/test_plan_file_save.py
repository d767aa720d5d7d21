"""Plans and other outputs appear whole or not at all, whoever kills, fills the disk or writes at once."""

import errno
import itertools
import os
import signal
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from running import files_of
from unit_data import build_manifest

from gcbs_cli.plan_file import plans
from gcbs_cli.plan_file.manifest import manifest_path
from gcbs_cli.plan_file.permutation import read_permutation, write_array
from gcbs_cli.plan_file.plans import OTHER_MANIFEST, check_plan_output, load_plan, save_plan
from gcbs_cli.plan_file.writing import check_outputs, file, write
from gcbs_cli.system.errors import WRITTEN, BadInput, GcbsError

ROWS = 200
TOUCHES = {"open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}
OUTPUTS = pytest.mark.parametrize("output", ["perm.npy", "perm.parquet", "perm.txt"])


def order(seed, rows=ROWS):
    return np.random.default_rng(seed).permutation(rows)


def save(path, seed, rows=ROWS):
    save_plan(path, order(seed, rows), build_manifest(order(seed, rows)), force=True)


def assert_is(path, seed):
    """The permutation at `path` is this one, with its manifest."""
    plan = load_plan(path)
    assert plan.perm.tolist() == order(seed).tolist()
    assert plan.manifest == build_manifest(order(seed))


@pytest.fixture
def no_waiting(monkeypatch):
    """What does not match is not read again."""
    monkeypatch.setattr(plans, "_SECONDS_TO_MATCH", 0.0)


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@OUTPUTS
def test_a_plan_replaces_another_with_its_manifest(output):
    opened = set(os.listdir("/proc/self/fd"))
    for seed in range(3):
        WRITTEN.clear()
        manifest = build_manifest(order(seed), gather=seed > 1)
        save_plan(output, order(seed), manifest, force=True)
        plan = load_plan(output)
        assert (plan.perm.tolist(), plan.name, plan.gather) == (order(seed).tolist(), output, seed > 1)
        assert plan.manifest == manifest
        assert list(WRITTEN) == [output]
    assert set(os.listdir("/proc/self/fd")) <= opened  # fewer where garbage held a file
    assert set(files_of(Path())) == {output, f"{output}.manifest.json"}


def test_nothing_is_saved_of_what_is_no_permutation_nor_in_a_folder_that_is_gone_nor_beside_stdout(capsysbinary):
    twice = order(0)
    twice[1] = twice[0]
    with pytest.raises(BadInput, match="missing or there twice"):
        save_plan("perm.npy", twice, build_manifest(twice))
    assert files_of(Path()) == {}
    np.save("twice.npy", twice)
    with pytest.raises(BadInput, match="missing or there twice"):
        load_plan("twice.npy")
    Path("twice.npy").unlink()
    with pytest.raises(GcbsError, match="No such file or directory; write to another folder"):
        save("gone/perm.npy", 0)
    save("-", 0)
    assert capsysbinary.readouterr().out == "".join(f"{i}\n" for i in order(0)).encode()
    assert files_of(Path()) == {}


def killed_at(moment, work):
    """Do `work` in a process that is killed before it touches the file system for the nth time; False if it ended."""
    child = os.fork()
    if child == 0:
        touches = itertools.count()

        def kill(event, arguments):
            if event in TOUCHES and next(touches) == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(kill)
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


@OUTPUTS
@pytest.mark.parametrize("old", [True, False], ids=["over a plan", "a first plan"])
def test_a_kill_at_any_write_leaves_the_old_plan_or_the_new_one_or_a_hash_that_tells(output, old, no_waiting):
    save("other-" + output, 0)  # imports what it needs
    outcomes = []
    for moment in itertools.count():
        Path(output).unlink(missing_ok=True)
        manifest_path(output).unlink(missing_ok=True)
        if old:
            save(output, 0)
        if not killed_at(moment, lambda: save(output, 1)):
            break
        check_plan_output(output, {}, force=Path(output).exists())
        if not Path(output).exists():
            outcomes.append("none")
            continue
        is_old = read_permutation(output)[0] == order(0)[0]
        with suppress(BadInput):
            load_plan(output)
            outcomes.append("old" if is_old else "new")
            continue
        with pytest.raises(BadInput, match=f"{output}: {OTHER_MANIFEST}; plan again, or remove the manifest"):
            load_plan(output)
        assert is_old  # no new permutation without its manifest
        outcomes.append("told")
    assert list(dict.fromkeys(outcomes)) == (["old", "told", "new"] if old else ["none", "new"])
    assert outcomes.count("told") <= 1 + old
    assert any(name.endswith(".gcbs-tmp") for name in files_of(Path()))
    assert_is(output, 1)


def test_a_reader_between_the_two_renames_reads_again(monkeypatch):
    save("perm.npy", 0)
    save("new.npy", 1)
    os.replace(manifest_path("new.npy"), manifest_path("perm.npy"))
    monkeypatch.setattr(time, "sleep", lambda _: os.replace("new.npy", "perm.npy"))
    assert_is("perm.npy", 1)


def test_a_manifest_of_another_permutation_is_told_after_two_seconds():
    save("perm.npy", 0)
    np.save("perm.npy", order(1))
    began = time.monotonic()
    with pytest.raises(BadInput, match="the manifest is of another permutation"):
        load_plan("perm.npy")
    assert 2.0 <= time.monotonic() - began < 4.0
    manifest_path("perm.npy").unlink()
    assert load_plan("perm.npy").manifest is None


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("stop", "says"),
    [
        (KeyboardInterrupt(), None),
        (BadInput("?"), None),
        (BrokenPipeError(), None),
        (OSError(errno.EBUSY, "busy"), "busy; write to another folder or disk"),
    ],
)
def test_any_exception_leaves_the_old_file_and_nothing_else_and_a_failing_disk_is_one_line(tmp_path, stop, says):
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def fill():
        with file(path, force=True) as output:
            output.write(b"new")
            raise stop

    with pytest.raises(GcbsError if says else type(stop)) as caught:
        fill()
    if says:
        assert type(caught.value) is GcbsError
        assert str(caught.value).startswith(f"cannot write {path}: ")
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["out"]


def test_what_does_not_fit_on_the_disk_to_the_last_byte_leaves_what_was_there(tmp_path):
    resource = pytest.importorskip("resource")
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most[1]))
    try:
        # np.save leaves 4,096 of 4,184 bytes, and is content.
        with pytest.raises(GcbsError, match="File too large"), file(tmp_path / "x.npy") as output:
            write_array(output, np.arange(507))
        save("perm.npy", 0)
        before = files_of(Path())
        for name in ("perm.npy", "first.npy", "first.parquet", "first.txt"):
            with pytest.raises(GcbsError, match="File too large"):
                save(name, 0, 5070)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert files_of(Path()) == before  # its manifest too


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EIO])
def test_a_folder_that_cannot_be_synced_leaves_the_file_in_place(tmp_path, monkeypatch, code):
    WRITTEN.clear()

    def files_only(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))
        assert os.fstat(descriptor).st_size == 1  # all of it is to survive

    monkeypatch.setattr(os, "fsync", files_only)
    write(tmp_path / "out", "x")
    assert (tmp_path / "out").read_bytes() == b"x"
    assert list(WRITTEN) == [str(tmp_path / "out")]


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize(("age", "stays"), [(3600, True), (90_000, False)], ids=["an hour old", "older than a day"])
def test_what_killed_runs_left_is_cleared_a_day_later(tmp_path, kind, age, stays):
    left = tmp_path / ".out.00ff.gcbs-tmp"
    left.write_bytes(b"half") if kind == "file" else left.mkdir()
    kept = [tmp_path / ".other.00ff.gcbs-tmp", tmp_path / ".out.notes"]
    for path in kept:
        path.write_bytes(b"not ours")
    for path in (left, *kept):
        os.utime(path, (time.time() - age,) * 2)
    write(tmp_path / "out", "new")
    assert names(tmp_path) == sorted(["out", *(path.name for path in kept), *([left.name] if stays else [])])


def test_two_runs_write_one_file_at_once(tmp_path):
    path = tmp_path / "out"
    with file(path, force=True) as slow:
        slow.write(b"slow")
        slow.flush()
        assert not path.exists()
        write(path, "quick")
        assert path.read_bytes() == b"quick"
    assert path.read_bytes() == b"slow"
    assert names(tmp_path) == ["out"]


def test_the_longest_name_that_a_folder_takes(tmp_path):
    path = tmp_path / ("é" * 127)
    write(path, "x")
    assert names(tmp_path) == [path.name]
    with pytest.raises(GcbsError, match="File name too long"):
        write(tmp_path / ("é" * 128), "x")


def test_a_file_that_has_appeared_meanwhile_stays_without_force(tmp_path, monkeypatch):
    for links in (True, False):  # some file systems have no links
        path = tmp_path / f"out-{links}"
        if not links:
            monkeypatch.setattr(os, "link", _no_links)
        write(path, "first")
        with pytest.raises(BadInput, match="exists; use --force to replace it"):
            write(path, "second")
        assert path.read_bytes() == b"first"
        write(path, "third", force=True)
        assert path.read_bytes() == b"third"
    assert names(tmp_path) == ["out-False", "out-True"]


def _no_links(*_):
    raise OSError(errno.EPERM, "Operation not permitted")


def test_a_link_is_replaced_and_its_target_stays(tmp_path):
    (tmp_path / "target").write_bytes(b"kept")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("link", "loop"):
        with pytest.raises(BadInput, match="exists; use --force to replace it"):
            check_outputs([tmp_path / name], {}, force=False)
        check_outputs([tmp_path / name], {}, force=True)
        write(tmp_path / name, "new", force=True)
        assert (tmp_path / name).read_bytes() == b"new"
    assert (tmp_path / "target").read_bytes() == b"kept"


def test_a_manifest_without_its_permutation_goes_and_what_is_none_stays():
    save("perm.npy", 0)
    Path("perm.npy").unlink()
    check_plan_output("perm.npy", {}, force=False)
    assert files_of(Path()) == {}
    manifest_path("perm.npy").write_text('{"of": "something else"}')
    for force in (False, True):
        with pytest.raises(BadInput, match="cannot be read as a gcbs manifest"):
            check_plan_output("perm.npy", {}, force=force)
