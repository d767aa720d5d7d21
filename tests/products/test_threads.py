"""Work runs in as many threads as the machine's limits allow, and the plan does not depend on how many those are."""

import json
import os
import subprocess
import sys

import pytest

CODE = """
import json, sys, threading
import numpy as np
from threadpoolctl import threadpool_info
from gcbs_cli.data import from_array, read_unit_rows
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.limits import available_cpus
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.data.pairs import PairedRows

rng = np.random.default_rng(0)
sides = [read_unit_rows(from_array(rng.normal(size=(900, 16)), name)).values for name in "xy"]
perm = make_plan(PairedRows(*sides), PlanSettings(device="cpu")).perm
blas = max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
print(json.dumps([available_cpus(), choose_backend("cpu").workers, blas, perm.tolist()]))
"""


def limited(threads: int) -> list:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    environment.pop("OPENBLAS_NUM_THREADS", None)
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, check=True, timeout=60)
    return json.loads(done.stdout)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_omp_num_threads_is_followed_and_changes_no_plan():
    (*one, perm), (cpus, workers, _, again) = limited(1), limited(2)
    assert one == [1, 1, 1]
    assert (cpus, workers) == (2, 2)
    assert again == perm
