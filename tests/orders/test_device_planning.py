"""A plan whose graph stays on a device is the plan that the host makes."""

import numpy as np
import pytest
from unit_data import make_pair

pytest.importorskip("torch")

from gcbs_cli.planning import plan as planning
from gcbs_cli.planning.on_device import find_device_plan
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products.torch_backend import TorchBackend
from gcbs_cli.settings.plan import GraphSettings, PlanSettings
from gcbs_cli.system.errors import BadInput, OutOfDeviceMemory
from gcbs_cli.system.progress import Progress


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
            pair, threshold, ["cpu"], strip_rows=settings.work.chunk_rows, progress=watcher.progress
        ),
    )


@pytest.mark.parametrize("method", ["rcm", "cm"])
@pytest.mark.parametrize("kind", ["related", "hubs", "duplicates", "at-threshold"])
def test_plans_and_figures_are_those_of_the_host(kind, method, request):
    pair = make_pair(kind, 333)
    settings = PlanSettings.of(batch_size=16, quantile=0.98, method=method, chunk_rows=100)
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
    graph = GraphSettings(graph="top-m", top=4)
    assert make_plan(pair, PlanSettings(batch_size=8, graph=graph)).figures.edges > 0


class Listener(Progress):
    def __init__(self, notes):
        self.note = notes.append


def test_a_graph_that_does_not_fit_there_goes_to_the_host(on_gpu, monkeypatch):
    pair, notes = make_pair("related", 333), []
    settings = PlanSettings.of(batch_size=16, quantile=0.98)
    expected = make_plan(pair, settings).perm

    def full(*_):
        raise OutOfDeviceMemory("900 edges", "fewer rows")

    monkeypatch.setattr(planning, "_graph_on_device", full)
    found = make_plan(pair, settings, Listener(notes))
    assert np.array_equal(found.perm, expected)
    assert found.figures.edges > 0
    assert "the device's memory does not suffice for 900 edges; the graph goes to the host's" in notes
    with pytest.raises(BadInput, match="--max-memory"):
        make_plan(pair, settings.changed(max_memory=1 << 16))


class FullDevice(ClaimedGpu):
    """A device whose memory holds no embeddings: they stay in the host's, and tiles take their rows from there."""

    def load(self, rows):
        return HostRows(super().load(rows))


class HostRows:
    """Rows that can only be sliced, as rows of the host are for a device."""

    def __init__(self, rows):
        self._rows = rows

    def __getitem__(self, part):
        return self._rows[part]


def test_embeddings_that_stay_on_the_host_give_the_same_plan(monkeypatch):
    pair = make_pair("related", 333)
    settings = PlanSettings.of(batch_size=16, graph="top-m", top=4, chunk_rows=100)
    expected = make_plan(pair, settings).perm
    monkeypatch.setattr(planning, "choose_backend", lambda device: FullDevice())
    assert np.array_equal(make_plan(pair, settings).perm, expected)
