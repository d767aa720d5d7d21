"""What gcbs must never do with a user's files, and what it must do with its own."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from running import LONGEST_WAIT

from gcbs_cli.plan_file import writing

ROOT = Path(__file__).parents[1]
NOBODY = 65534


def test_no_array_is_unpickled_and_files_are_opened_in_one_place_to_be_read_and_in_one_to_be_written():
    """Everything else that could run what a file says is banned by ruff (pyproject.toml)."""
    for path in (ROOT / "gcbs_cli").rglob("*.py"):
        assert not re.search(r"allow_pickle=(?!False)", path.read_text()), path
    calls = re.compile(r"(?<![\w.])open\(|\b(os|path|_path|io|paths\[0\])\.open\(|\.(read|write)_(text|bytes)\(")
    for path in (ROOT / "gcbs_cli").rglob("*.py"):
        name = str(path.relative_to(ROOT / "gcbs_cli"))
        assert name in OPENED_IN or not calls.search(path.read_text()), name


OPENED_IN = {
    "data/files.py": "inputs",
    "plan_file/writing.py": "outputs",
    "planning/parts/scattered.py": "rows in the order of their parts while a plan is not finished",
    "system/compiled.py": "the loops' own source, which names their machine code",
    "system/limits.py": "what the kernel says",
    "cli/app.py": "/dev/null",
    "cli/demo.py": "the sample that comes with the package",
    "cli/output.py": "/dev/null",
}


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o027])
def test_outputs_have_the_umask(tmp_path, umask):
    old = os.umask(umask)
    try:
        writing.write(tmp_path / "perm.npy", "whole")
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(tmp_path / "perm.npy").st_mode) == 0o666 & ~umask


def tree_of(folder):
    """Mode, time and content of every file, mode of every folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = (status.st_mtime_ns, path.read_bytes()) if path.is_file() else ()
        found[str(path.relative_to(folder))] = (status.st_mode, *content)
    return found


@pytest.fixture
def place(tmp_path):
    """A folder with inputs, an empty home, a folder for outputs and a temporary folder."""
    for name in ("in", "out", "home", "tmp", "source"):
        (tmp_path / name).mkdir()
    for side in "xy":
        np.save(tmp_path / "in" / f"{side}.npy", np.load(ROOT / "sample_data" / f"{side}.npy")[:130])
    return tmp_path


def environment(place):
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    own = {"HOME": str(place / "home"), "TMPDIR": str(place / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
    return kept | own | {"NUMBA_DISABLE_JIT": "1"}


def test_only_the_named_outputs_are_written(place):
    before, inputs = tree_of(place), "in/x.npy in/y.npy"
    commands = [
        f"plan {inputs} -o out/perm.npy -q --partitions 2",
        f"report {inputs} -p out/perm.npy -o out/report.json -q",
        f"check {inputs} -p out/perm.npy -q",
    ]
    run = "import sys; from gcbs_cli.cli.app import app; [app(w.split(), standalone_mode=False) for w in sys.argv[1:]]"
    own = environment(place) | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", run, *commands], cwd=place, env=own, check=True, timeout=LONGEST_WAIT)
    after = tree_of(place)
    assert set(after) - set(before) == {"out/perm.npy", "out/perm.npy.manifest.json", "out/report.json"}
    assert {name: after[name] for name in before} == before


AS_NOBODY = f"""
import os, sys, tempfile
from typer.testing import CliRunner
from gcbs_cli.cli.app import app, main
with tempfile.TemporaryDirectory() as warm:  # the interpreter's own libraries may be root's alone: load them first
    ended = CliRunner().invoke(app, [*sys.argv[1:4], "-o", warm + "/perm.npy", "-q"])
    assert ended.exit_code == 0, ended.output
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
main()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_unprivileged_user_with_a_read_only_source_tree(place):
    shutil.copytree(ROOT / "gcbs_cli", place / "source" / "gcbs_cli", ignore=shutil.ignore_patterns("__pycache__"))
    for path in [place / "source", *(place / "source").rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for path in place.parents:
        if path.stat().st_mode & 0o011 != 0o011 and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o011)
    for name in ("out", "home", "tmp"):
        os.chown(place / name, NOBODY, NOBODY)
    place.chmod(0o755)
    source = tree_of(place / "source")
    ran = {}
    for output in ("out/perm.npy", "in/perm.npy"):
        ran[output] = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, "plan", "in/x.npy", "in/y.npy", "-o", output, "-q"],
            cwd=place,
            env=environment(place) | {"PYTHONPATH": str(place / "source")},
            capture_output=True,
            text=True,
            timeout=LONGEST_WAIT,
        )
    assert (ran["out/perm.npy"].returncode, ran["out/perm.npy"].stderr) == (0, "")
    assert (place / "out" / "perm.npy").stat().st_uid == NOBODY
    refused = ran["in/perm.npy"]
    assert refused.returncode == 2
    reason = "in does not exist, or is no writable folder; create it or name another"
    assert refused.stderr == f"gcbs: in/perm.npy: {reason}\n"
    assert tree_of(place / "source") == source
