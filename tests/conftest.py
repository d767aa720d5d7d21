import os
from importlib import import_module

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from running import SAMPLE
from typer.testing import CliRunner

from gcbs_cli.cli.app import app
from gcbs_cli.products.cpu import CpuBackend

COLOURS = "FORCE_COLOR NO_COLOR PY_COLORS GITHUB_ACTIONS TTY_COMPATIBLE TTY_INTERACTIVE"
for name in f"{COLOURS} COLUMNS LINES TERMINAL_WIDTH".split():
    os.environ.pop(name, None)  # what is shown does not depend on where the tests run
# The same examples on each run, however slow the machine is: `make test-hard` looks for new ones.
UNHURRIED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("gcbs", deadline=None, derandomize=True, suppress_health_check=UNHURRIED)
settings.load_profile("gcbs")
os.environ["GCBS_TRACEBACK"] = "1"  # what the command line catches for lack of better words counts as a defect


BACKENDS = {
    "one-worker": lambda: CpuBackend(1),
    "three-workers-float32": lambda: CpuBackend(3),
    "torch-cpu-twice": lambda: import_module("gcbs_cli.products.torch_device").TorchBackend(["cpu", "cpu"]),
}


@pytest.fixture(scope="session")
def gcbs():
    """Run the command line in this process."""
    return lambda *words, stdin=None: CliRunner().invoke(app, [str(word) for word in words], input=stdin)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, with x.npy and y.npy of 300 real pairs."""
    monkeypatch.chdir(tmp_path)
    for side in "xy":
        np.save(tmp_path / f"{side}.npy", np.load(SAMPLE / f"{side}.npy")[:300])
    return tmp_path


@pytest.fixture(params=BACKENDS)
def backend(request, monkeypatch):
    """Every way to compute a tile."""
    if "float32" in request.param:
        monkeypatch.setattr("gcbs_cli.products.byte_products.can_multiply", lambda left: False)
    return BACKENDS[request.param]()


@pytest.fixture
def chosen_backend(backend, monkeypatch):
    """The backend, put where plans and reports choose theirs."""

    def chosen(device, tile_rows=None):
        backend.tile_rows = tile_rows
        return backend

    for module in ("gcbs_cli.planning.plan", "gcbs_cli.reports.basis"):
        monkeypatch.setattr(f"{module}.choose_backend", chosen)
    return backend
