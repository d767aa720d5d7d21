"""A plan whose graph stays on a device is the plan that the host makes."""

import numpy as np
import pytest
from unit_data import make_pair

from gcbs_cli import planning
from gcbs_cli.device_planning import find_device_plan
from gcbs_cli.planning import make_plan
from gcbs_cli.settings import GraphSettings, PlanSettings
from gcbs_cli.similarity.torch_backend import TorchBackend


class ClaimedGpu(TorchBackend):
    """A torch device that is named like a GPU."""

    def __init__(self):
        super().__init__("cpu")
        self.name = "cuda:0"


@pytest.fixture
def on_gpu(monkeypatch):
    monkeypatch.setattr(planning, "choose_backend", lambda device: ClaimedGpu())
    monkeypatch.setattr(
        planning,
        "_graph_on_device",
        lambda pair, settings, threshold, backend, watcher: find_device_plan(
            pair, threshold, "cpu", strip_rows=settings.tile_rows, progress=watcher.progress
        ),
    )


@pytest.mark.parametrize("method", ["rcm", "cm"])
@pytest.mark.parametrize("kind", ["related", "hubs", "duplicates", "at-threshold"])
def test_plans_and_figures_are_those_of_the_host(kind, method, request):
    pair = make_pair(kind, 333)
    settings = PlanSettings(batch_size=16, graph=GraphSettings(quantile=0.98), method=method, tile_rows=100)
    host = make_plan(pair, settings)
    request.getfixturevalue("on_gpu")
    device = make_plan(pair, settings)
    assert np.array_equal(device.perm, host.perm)
    assert device.device == "cuda:0"
    assert device.figures == host.figures


def test_what_needs_the_graph_on_the_host_gets_it_there(on_gpu, monkeypatch):
    monkeypatch.setattr(planning, "_graph_on_device", None)
    pair = make_pair("related", 100)
    assert make_plan(pair, PlanSettings(batch_size=8, method="random")).device == "cuda:0"
    graph = GraphSettings(kind="top-m", top=4)
    assert make_plan(pair, PlanSettings(batch_size=8, graph=graph)).figures.edges > 0
