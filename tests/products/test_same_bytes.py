"""The same bytes whatever multiplies: threads, kernels of libraries, processors with and without some instructions."""

import json
import os
import subprocess
import sys
from functools import cache

import pytest

CODE = """
import hashlib, json, sys
import numpy as np
from gcbs_cli.data.grid import BYTES, FINE, make_grid
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.graph.hard_pairs import find
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.settings.plan import PlanSettings

rng = np.random.default_rng(4)
x = rng.normal(size=(1200, 40)) + 3 * rng.normal(size=40)
x[600:700] = x[:100]  # equal rows, so ties decide
y = x + rng.normal(size=x.shape)
x, y = (np.float32(side / np.sqrt(np.square(side).sum(axis=1, keepdims=True))) for side in (x, y))
found, sums = {}, hashlib.sha256()
for largest in (BYTES, FINE):
    grid = make_grid(x, y, largest)
    sums.update(b"".join(part.tobytes() for part in (grid.x, grid.y, grid.x_offsets, grid.y_offsets)))
    sums.update(repr((grid.constant, grid.scale)).encode())
    backend = CpuBackend(byte_products=json.loads(sys.argv[1]))
    threshold = find_threshold(grid, PlanSettings(quantile=0.99, quantile_method="exact"), 0, backend)
    listed = find(grid, threshold, backend, ties=True, lists=9, tile_rows=int(sys.argv[2]))
    above = listed.edges()
    graph = adjacency_from_pairs(1200, above.rows, above.cols)
    for part in (graph.indptr, graph.indices, *listed.hardest):
        sums.update(part.tobytes())
    sums.update(str(threshold.number).encode())
found["passes"] = sums.hexdigest()
for method, more in {"rcm": {}, "metis": {"graph": "top-m", "refine": True, "fn_margin": 0.95}}.items():
    plan = make_plan(PairedRows(x, y), PlanSettings(batch_size=16, device="cpu", method=method, **more))
    found[method] = hashlib.sha256(plan.perm.tobytes()).hexdigest()
print(json.dumps(found))
"""

WAYS = {
    "float32 products": {"bytes": False},
    "one thread": {"OMP_NUM_THREADS": "1"},
    "eight threads, small tiles": {"OMP_NUM_THREADS": "8", "rows": 37},
    "haswell's BLAS": {"OPENBLAS_CORETYPE": "Haswell", "bytes": False},
    "a BLAS for AVX-512": {"OPENBLAS_CORETYPE": "SkylakeX", "bytes": False},
    "numpy without AVX-512": {"NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX", "bytes": False},
    "loops for any processor": {"NUMBA_CPU_NAME": "generic"},
}


@cache
def found(*, rows: int = 1024, **environment: str | bool) -> dict[str, str]:
    settings = {name: str(value) for name, value in environment.items() if name != "bytes"}
    command = [sys.executable, "-W", "ignore", "-c", CODE, json.dumps(environment.get("bytes", True)), str(rows)]
    done = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, check=True, timeout=300, text=True
    )
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_grid_passes_and_plans_have_the_same_bytes(way: str) -> None:
    assert found(**WAYS[way]) == found()
