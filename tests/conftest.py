from collections.abc import Callable

import pytest

from gcbs_cli.products.backend import Backend
from gcbs_cli.products.numpy_backend import NumpyBackend
from gcbs_cli.products.screening_backend import ScreeningBackend


def _torch_backend() -> Backend:
    pytest.importorskip("torch")
    from gcbs_cli.products.torch_backend import TorchBackend

    return TorchBackend("cpu")


def _two_devices() -> Backend:
    pytest.importorskip("torch")
    from gcbs_cli.products.several_devices import SeveralDevices

    return SeveralDevices(["cpu", "cpu"])


BACKENDS: dict[str, Callable[[], Backend]] = {
    "numpy-1-worker": lambda: NumpyBackend(workers=1),
    "numpy-3-workers": lambda: NumpyBackend(workers=3),
    "cpu-screening": lambda: ScreeningBackend(workers=2, least_products=0),
    "torch-cpu": _torch_backend,
    "torch-cpu-twice": _two_devices,
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
