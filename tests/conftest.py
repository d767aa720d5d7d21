import os
from collections.abc import Callable

import pytest

from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.operations import Backend

os.environ["GCBS_TRACEBACK"] = "1"  # what the command line catches for lack of better words counts as a defect


def _torch_backend(*devices: str) -> Backend:
    from gcbs_cli.products.torch_device import TorchBackend

    return TorchBackend(devices)


BACKENDS: dict[str, Callable[[], Backend]] = {
    "one-worker": lambda: CpuBackend(1),
    "three-workers-float32": lambda: CpuBackend(3, byte_products=False),
    "torch-cpu-twice": lambda: _torch_backend("cpu", "cpu"),
}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Every way to compute a tile."""
    return BACKENDS[request.param]()


@pytest.fixture
def chosen_backend(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """The backend, put where plans and reports choose theirs."""
    for module in ("gcbs_cli.planning.plan", "gcbs_cli.reports.basis"):
        monkeypatch.setattr(f"{module}.choose_backend", lambda device: backend)
    return backend
