"""The same bytes whatever multiplies: threads, kernels of libraries, processors with and without some instructions."""

import json
from functools import cache
from pathlib import Path

import pytest
from running import run_python

CODE = """
import hashlib, json, sys
import numpy as np
from gcbs_cli.data.grid import BYTES, FINE, make_grid
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.graph.hard_pairs import find
from gcbs_cli.graph.hard_pairs import weigh
from gcbs_cli.orders.swap_gains import sample_background, swap_gains
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products import byte_products
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.settings.plan import PlanSettings

rng = np.random.default_rng(4)
x = rng.normal(size=(1200, 40)) + 3 * rng.normal(size=40)
x[600:700] = x[:100]  # equal rows, so ties decide
y = x + rng.normal(size=x.shape)
x, y = (np.float32(side / np.sqrt(np.square(side).sum(axis=1, keepdims=True))) for side in (x, y))
pair, found, sums = PairedRows(x, y), {}, hashlib.sha256()
for largest in (BYTES, FINE):
    grid = make_grid(x, y, largest)
    sums.update(b"".join(part.tobytes() for part in (grid.x, grid.y, grid.x_offsets, grid.y_offsets)))
    sums.update(repr((grid.constant, grid.scale)).encode())
    backend = CpuBackend()
    if sys.argv[1] == "false":
        byte_products.can_multiply = lambda left: False
    threshold = find_threshold(grid, PlanSettings(quantile=0.99, quantile_method="exact"), 0, backend)
    backend.tile_rows = int(sys.argv[2])
    listed = find(grid, threshold, backend, lists=9)
    graph = adjacency_from_pairs(1200, listed.entries.rows, listed.entries.cols)
    for part in (graph.indptr, graph.indices, *listed.hardest):
        sums.update(part.tobytes())
    sums.update(str(threshold.number).encode())
found["passes"] = sums.hexdigest()
background = sample_background(pair, 0.05, 0)
gains = swap_gains(weigh(graph, pair), pair, 0.05, 64, background)
parts = (*background, gains.shares, gains.base, gains.worth())
found["weights"] = [hashlib.sha256(part.tobytes()).hexdigest() for part in parts]
for method, more in {"rcm": {}, "metis": {"graph": "top-m", "refine": True, "fn_margin": 0.95}}.items():
    plan = make_plan(pair, PlanSettings(batch_size=16, device="cpu", method=method, **more))
    found[method] = hashlib.sha256(plan.perm.tobytes()).hexdigest()
print(json.dumps(found))
"""

NO_AVX_512 = "AVX512F AVX512CD AVX512_SKX AVX512_ICL AVX512_SPR X86_V4"  # by the names of old and new numpy
WAYS = {
    "float32 products": {"bytes": False},
    "one thread": {"OMP_NUM_THREADS": "1"},
    "eight threads, small tiles": {"OMP_NUM_THREADS": "8", "rows": 37},
    "haswell's BLAS": {"OPENBLAS_CORETYPE": "Haswell", "bytes": False},
    "nehalem's BLAS": {"OPENBLAS_CORETYPE": "Nehalem", "bytes": False},
    "a BLAS for AVX-512": {"OPENBLAS_CORETYPE": "SkylakeX", "bytes": False},
    "numpy without AVX-512": {"NPY_DISABLE_CPU_FEATURES": NO_AVX_512, "bytes": False},
    "loops for any processor": {"NUMBA_CPU_NAME": "generic"},
}
QUICK = ["one thread", "nehalem's BLAS", "numpy without AVX-512"]


@cache
def found(*, rows=1024, bytes=True, **environment):
    return json.loads(run_python(CODE, json.dumps(bytes), rows, **environment))


@pytest.mark.parametrize("way", [pytest.param(w, marks=[] if w in QUICK else pytest.mark.slow) for w in WAYS])
def test_grid_weights_passes_and_plans_have_the_same_bytes(way):
    if way == "a BLAS for AVX-512" and "avx512dq" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs a processor with AVX-512")
    assert found(**WAYS[way]) == found()
