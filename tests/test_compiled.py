import subprocess
import sys

import numpy as np

from gcbs_cli.compiled import compiled


@compiled
def _square(value):
    return value * value


@compiled
def _sum_of_squares(values):
    total = 0.0
    for value in values:
        total += _square(value)
    return total


def test_a_compiled_loop_may_call_another():
    assert _sum_of_squares(np.array([1.0, 2.0, 3.0])) == 14.0
    assert _square(3.0) == 9.0


def test_numba_is_not_imported_before_a_loop_runs():
    code = "import sys, gcbs_cli.planning, gcbs_cli.similarity.pair_values; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
