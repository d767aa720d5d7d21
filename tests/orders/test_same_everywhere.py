"""Weights and the plans made with them have the same bytes with any BLAS kernel and any instructions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[2] / "sample_data"
FINGERPRINTS = """
import hashlib, sys
import numpy as np
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.graph.weighted import weigh
from gcbs_cli.orders.refinement import refine
from gcbs_cli.orders.swap_gains import log_background, swap_gains

x, y = (np.load(path).astype(np.float64) for path in sys.argv[1:3])
pair = PairedRows(*((side / np.sqrt((side * side).sum(1, keepdims=True))).astype(np.float32) for side in (x, y)))
draws = np.random.default_rng(0)
graph = adjacency_from_pairs(pair.rows, *draws.integers(pair.rows, size=(2, 20_000)).astype(np.int32))
background = log_background(pair, 0.05, 0)
gains = swap_gains(weigh(graph, pair), pair, 0.05, 64, background)
perm = refine(np.arange(pair.rows), gains, 64).perm
for values in (*background, gains.shares, gains.worth(), perm):
    print(hashlib.sha256(values.tobytes()).hexdigest())
"""
MACHINES = {
    "haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "no-avx512": {"NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512_SKX AVX512_ICL AVX512_SPR X86_V4"},
    "generic": {"NUMBA_CPU_NAME": "generic", "OMP_NUM_THREADS": "1"},
}


def fingerprints(**variables: str) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-c", FINGERPRINTS, str(SAMPLE / "x.npy"), str(SAMPLE / "y.npy")]
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def here() -> list[str]:
    return fingerprints()


@pytest.mark.parametrize("machine", [*list(MACHINES)[:-1], pytest.param("generic", marks=pytest.mark.slow)])
def test_weights_and_refined_plans_are_the_same_on_other_machines(machine: str, here: list[str]) -> None:
    assert fingerprints(**MACHINES[machine]) == here
