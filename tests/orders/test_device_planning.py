"""A plan whose graph stays on a device is the plan that the host makes."""

import numpy as np
import pytest
from unit_data import make_pair

pytest.importorskip("torch")

from gcbs_cli.graph import device_graph
from gcbs_cli.planning import plan as planning
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products.torch_device import TorchBackend
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.errors import BadInput, OutOfDeviceMemory
from gcbs_cli.system.progress import Progress


class ClaimedGpu(TorchBackend):
    """A torch device that is named like a GPU."""

    def __init__(self, devices=("cpu",)):
        super().__init__(devices)
        self.name = "cuda:0"


@pytest.fixture
def on_gpu(monkeypatch):
    monkeypatch.setattr(planning, "choose_backend", lambda device: ClaimedGpu())


@pytest.mark.parametrize("devices", [["cpu"], ["cpu", "cpu"]], ids=["one", "two"])
@pytest.mark.parametrize("method", ["rcm", "cm"])
@pytest.mark.parametrize("kind", ["related", "hubs", "duplicates", "at-threshold"])
def test_plans_and_figures_are_those_of_the_host(kind, method, devices, monkeypatch):
    pair = make_pair(kind, 333)
    settings = PlanSettings(batch_size=16, quantile=0.98, method=method, chunk_rows=100)
    host = make_plan(pair, settings)
    monkeypatch.setattr(planning, "choose_backend", lambda device: ClaimedGpu(devices))
    device = make_plan(pair, settings)
    assert np.array_equal(device.perm, host.perm)
    assert device.device == "cuda:0"
    assert device.figures == host.figures


@pytest.mark.parametrize("devices", [["cpu"], ["cpu", "cpu"]], ids=["one", "two"])
@pytest.mark.parametrize(
    "chosen",
    [
        {"graph": "top-m", "top": 4, "method": "metis", "refine": True},
        {"quantile": 0.98, "fn_margin": 0.95, "fn_weight": 0.2, "refine": True},
        {"rank_window": (2, 8), "method": "rcm"},
        {"quantile": 0.98, "quantile_method": "exact"},
    ],
    ids=["top-m, metis, refined", "suspicion", "rank window", "exact quantile"],
)
def test_plans_from_the_graph_on_the_host_are_the_same_on_torch(chosen, devices, monkeypatch):
    pair, settings = make_pair("hubs", 333), PlanSettings(batch_size=16, chunk_rows=100, **chosen)
    host = make_plan(pair, settings)
    monkeypatch.setattr(planning, "choose_backend", lambda device: TorchBackend(devices))
    assert np.array_equal(make_plan(pair, settings).perm, host.perm)


def test_what_needs_the_graph_on_the_host_gets_it_there(on_gpu, monkeypatch):
    monkeypatch.setattr(device_graph, "find_device_graph", None)
    pair = make_pair("related", 100)
    assert make_plan(pair, PlanSettings(batch_size=8, method="random")).device == "cuda:0"
    assert make_plan(pair, PlanSettings(batch_size=8, graph="top-m", top=4)).figures.edges > 0


class Listener(Progress):
    def __init__(self, notes):
        self.note = notes.append


def test_a_graph_that_does_not_fit_there_goes_to_the_host(on_gpu, monkeypatch):
    pair, notes = make_pair("related", 333), []
    settings = PlanSettings(batch_size=16, quantile=0.98)
    expected = make_plan(pair, settings).perm

    def full(*_, **__):
        raise OutOfDeviceMemory("the device is full")

    monkeypatch.setattr(device_graph, "find_device_graph", full)
    found = make_plan(pair, settings, Listener(notes))
    assert np.array_equal(found.perm, expected)
    assert found.figures.edges > 0
    assert "the device's memory does not suffice for the graph, which goes to the host's" in notes
    with pytest.raises(BadInput, match="--max-memory"):
        make_plan(pair, settings.changed(max_memory=1 << 16))
