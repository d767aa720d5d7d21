"""What the tests of the command line share: a runner, and real embeddings on disk."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from running import SAMPLE, files_of


def check_refused(gcbs, words, *said, stdin=None):
    """Exit code 2, one line with these words, nothing on stdout, and no file that is new or changed."""
    files = files_of(Path())
    result = gcbs(*words, stdin=stdin)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    (line,) = result.stderr.splitlines()
    for word in said:
        assert word in line
    assert files_of(Path()) == files


def entry_of(perm="perm.npy"):
    """The manifest of a plan."""
    return json.loads(Path(f"{perm}.manifest.json").read_text())


def similarities():
    """s_ij of x.npy and y.npy in float64."""
    x, y = (np.load(name).astype(np.float64) for name in ("x.npy", "y.npy"))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (y / np.linalg.norm(y, axis=1, keepdims=True)).T


@pytest.fixture
def sample(tmp_path, monkeypatch):
    """A folder to work in, with the whole sample data."""
    monkeypatch.chdir(tmp_path)
    for name in ("x.npy", "y.npy", "pairs.parquet"):
        shutil.copy(SAMPLE / name, tmp_path / name)
    return tmp_path
