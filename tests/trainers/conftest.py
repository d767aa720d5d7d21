"""Plans on disk for trainers, and a way to run several processes."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import toy_pairs
from launching import save
from running import LONGEST_WAIT

WORKERS = Path(__file__).parent / "workers"


@pytest.fixture
def perm():
    return np.random.default_rng(7).permutation(toy_pairs.ROWS)


@pytest.fixture
def plan_path(tmp_path, perm):
    return save(tmp_path / "perm.npy", perm)


@pytest.fixture
def plan_of_next_epoch(tmp_path, perm):
    """Another order; lies beside the plan as perm-1.npy, and the plan itself as perm-0.npy."""
    later = np.random.default_rng(8).permutation(perm)
    save(tmp_path / "perm-0.npy", perm)
    save(tmp_path / "perm-1.npy", later)
    return later


@pytest.fixture
def launch(tmp_path):
    """Run a worker script under a launcher on one thread a process; its folder is the last argument."""

    def run(script, *words, launcher=None):
        folder = tmp_path / "out"
        folder.mkdir(exist_ok=True)
        command = [sys.executable, *(launcher or []), str(WORKERS / script), *map(str, words), str(folder)]
        path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        quiet = {
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONPATH": path,
            "ACCELERATE_USE_CPU": "true",
            "CUDA_VISIBLE_DEVICES": "",
            "TQDM_DISABLE": "1",
        }
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,  # torchrun leaves a folder in it
            subprocess.Popen(command, env={**os.environ, **quiet, "TMPDIR": scratch}, **pipes) as process,
        ):
            try:
                said, _ = process.communicate(timeout=LONGEST_WAIT)
            finally:
                process.terminate()  # a launcher that takes too long ends its processes too
        assert process.returncode == 0, said[-8000:]
        return folder

    return run
