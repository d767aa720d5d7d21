"""A limit on the address space ends in one line, before any work where it leaves too little."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[2] / "sample_data"


@pytest.mark.parametrize(("mebibytes", "code"), [(150, 2), (300, 2), (4000, 0)])
def test_a_limited_address_space(tmp_path: Path, mebibytes: int, code: int) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))

    command = [sys.executable, "-m", "gcbs_cli", "plan", SAMPLE / "x.npy", SAMPLE / "y.npy", "-o", "perm.npy", "-q"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, preexec_fn=limit, timeout=300)
    assert run.returncode == code, run.stderr
    if code:
        assert run.stderr.startswith("gcbs: the limit on memory (ulimit -v) leaves")
        assert len(run.stderr.splitlines()) == 1
        assert not (tmp_path / "perm.npy").exists()
