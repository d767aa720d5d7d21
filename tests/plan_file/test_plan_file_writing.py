import errno
import os
import stat
import time
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest

from gcbs_cli.plan_file.permutation import write_array
from gcbs_cli.plan_file.writing import check_outputs, file, write
from gcbs_cli.system.errors import WRITTEN, BadInput, GcbsError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("stop", [KeyboardInterrupt, BadInput, BrokenPipeError])
def test_any_exception_leaves_the_old_file_and_nothing_else(tmp_path, stop):
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def fill(output):
        output.write(b"new")
        raise stop

    with pytest.raises(stop):
        write(path, fill)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (errno.ENOSPC, "no space left on the disk"),
        (errno.EACCES, "no permission to write here"),
        (errno.EFBIG, "ulimit -f"),
        (errno.EBUSY, "busy"),
    ],
)
def test_a_failing_disk_is_one_line_and_leaves_nothing(tmp_path, code, says):
    path = tmp_path / "out"

    def fill(output):
        output.write(b"new")
        raise OSError(code, os.strerror(code))

    with pytest.raises(GcbsError) as caught:
        write(path, fill)
    assert not isinstance(caught.value, BadInput)
    message = str(caught.value)
    assert message.startswith(f"cannot write {path}: ")
    assert says in message.lower()
    assert "\n" not in message
    assert names(tmp_path) == []


def test_an_array_whose_last_bytes_do_not_fit_is_not_written(tmp_path):
    resource = pytest.importorskip("resource")
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most[1]))
    try:
        with pytest.raises(GcbsError, match="ulimit -f"):  # np.save leaves 4,096 of 4,184 bytes, and is content
            write(tmp_path / "x.npy", partial(write_array, array=np.arange(507)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert names(tmp_path) == []


@pytest.mark.parametrize(("code", "loses"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_synced_leaves_the_file_in_place(tmp_path, monkeypatch, code, loses):
    sync = os.fsync
    WRITTEN.clear()

    def files_only(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)
    with pytest.raises(GcbsError, match="power cut") if loses else nullcontext():
        write(tmp_path / "out", lambda output: output.write(b"x"))
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
    with file(path) as slow:
        slow.write(b"slow")
        slow.flush()
        assert not path.exists()
        write(path, lambda output: output.write(b"quick"))
        assert path.read_bytes() == b"quick"
    assert path.read_bytes() == b"slow"
    assert names(tmp_path) == ["out"]


def test_the_longest_name_that_a_folder_takes(tmp_path):
    path = tmp_path / ("é" * 127)
    write(path, lambda output: output.write(b"x"))
    assert names(tmp_path) == [path.name]
    with pytest.raises(GcbsError, match="name is too long"):
        write(tmp_path / ("é" * 128), lambda output: output.write(b"x"))


def test_a_link_is_replaced_and_its_target_stays(tmp_path):
    (tmp_path / "target").write_bytes(b"kept")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("link", "loop"):
        with pytest.raises(BadInput, match="exists; use --force to replace it"):
            check_outputs([tmp_path / name], force=False)
        check_outputs([tmp_path / name], force=True)
        write(tmp_path / name, lambda output: output.write(b"new"))
        assert (tmp_path / name).read_bytes() == b"new"
    assert (tmp_path / "target").read_bytes() == b"kept"
