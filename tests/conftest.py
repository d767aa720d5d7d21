from collections.abc import Callable

import pytest

from gcbs_cli.similarity.backend import Backend
from gcbs_cli.similarity.numpy_backend import NumpyBackend
from gcbs_cli.similarity.screening_backend import ScreeningBackend
from gcbs_cli.similarity.several_devices import SeveralDevices
from gcbs_cli.similarity.torch_backend import TorchBackend

BACKENDS: dict[str, Callable[[], Backend]] = {
    "numpy-1-worker": lambda: NumpyBackend(workers=1),
    "numpy-3-workers": lambda: NumpyBackend(workers=3),
    "cpu-screening": lambda: ScreeningBackend(workers=2, least_products=0),
    "torch-cpu": lambda: TorchBackend("cpu"),
    "torch-cpu-twice": lambda: SeveralDevices(["cpu", "cpu"]),
}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Every way to compute a tile."""
    return BACKENDS[request.param]()


@pytest.fixture
def chosen_backend(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """The backend, put where plans and reports choose theirs."""
    for module in ("gcbs_cli.planning", "gcbs_cli.reports.basis"):
        monkeypatch.setattr(f"{module}.choose_backend", lambda device: backend)
    return backend
