"""The memory that a whole plan takes, beside what is said of it before the pass."""

import sys

import pytest
from processes import run_python

PEAK = """
import re, sys
from pathlib import Path
import numpy as np
from gcbs_cli.planning import plan as planning
from gcbs_cli.planning.room import forecast
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.data.pairs import PairedRows

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1)) * 1024

def pairs(rows):
    draws = np.random.default_rng(0)
    sides = [draws.normal(size=(rows, 32)).astype(np.float32) for _ in "xy"]
    return PairedRows(*(side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides))

method, refine = sys.argv[1], sys.argv[2] == "refine"
settings = PlanSettings(batch_size=64, per_row=200.0, method=method, refine=refine, device="cpu")
planning.make_plan(pairs(500), settings)  # imports, compiled loops
said = []
planning.forecast = lambda *given, **named: said.append(forecast(*given, **named)) or said[-1]
pair = pairs(12_000)
Path("/proc/self/clear_refs").write_text("5")
before = peak()
planning.make_plan(pair, settings)
print(peak() - before, said[0].memory, said[0].entries)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
@pytest.mark.parametrize(("method", "refine"), [("rcm", "refine"), ("metis", "")])
def test_a_plan_takes_no_more_memory_than_forecast(method: str, refine: str) -> None:
    if method == "metis":
        pytest.importorskip("pymetis")
    taken, forecast, entries = map(int, run_python(PEAK, method, refine, OMP_NUM_THREADS=2).split())
    assert entries > 2_000_000
    assert 0.3 * forecast < taken < 1.1 * forecast
