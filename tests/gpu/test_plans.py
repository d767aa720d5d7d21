"""From the graph on a device to its order, the plan and the report: what the CPU makes."""

import numpy as np
import pytest
import torch
from on_device import DEVICE, TWICE
from unit_data import Listener, make_pair

from gcbs_cli.graph import device_graph
from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.graph.device_graph import ENTRIES_AT_ONCE, DeviceGraph, rows_of_pairs
from gcbs_cli.orders.cuthill_mckee import plan_cm
from gcbs_cli.orders.level_synchronous import plan_cm_on_device
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.devices import warm_up
from gcbs_cli.products.torch_device import TorchBackend
from gcbs_cli.reports.build import make_reports
from gcbs_cli.reports.figures import FIGURES
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.errors import BadInput, OutOfDeviceMemory

DEALT = pytest.mark.parametrize("devices", [[DEVICE], TWICE], ids=["one", "two"])


def use(monkeypatch, backend):
    """Where plans and reports choose their device, they get this one: on the CPU, torch's stands for a GPU."""
    for module in ("gcbs_cli.planning.plan", "gcbs_cli.reports.basis"):
        monkeypatch.setattr(f"{module}.choose_backend", lambda name: CpuBackend() if name == "cpu" else backend)


@DEALT
@pytest.mark.parametrize("method", ["rcm", "cm"])
@pytest.mark.parametrize("kind", ["related", "hubs", "duplicates", "at-threshold"])
def test_plans_and_figures_are_those_of_the_cpu(kind, method, devices, monkeypatch):
    use(monkeypatch, TorchBackend(devices))
    settings = PlanSettings(batch_size=16, quantile=0.98, method=method, chunk_rows=100)
    found, host = (make_plan(make_pair(kind, 333), settings.changed(device=name)) for name in ("cuda", "cpu"))
    assert np.array_equal(found.perm, host.perm)
    assert found.figures == host.figures
    assert found.device != host.device or DEVICE == "cpu"


@DEALT
@pytest.mark.parametrize(
    "chosen",
    [
        {"graph": "top-m", "top": 4, "refine": True},
        {"quantile": 0.98, "fn_margin": 0.95, "fn_weight": 0.2, "refine": True},
        {"rank_window": (2, 8), "method": "rcm"},
        {"quantile": 0.98, "quantile_method": "exact"},
        {"method": "random"},
    ],
    ids=["top-m, refined", "suspicion", "rank window", "exact quantile", "random"],
)
def test_plans_whose_graph_is_on_the_host_are_the_same(chosen, devices, monkeypatch):
    if chosen.get("quantile_method") is None:
        monkeypatch.setattr(device_graph, "find_device_graph", None)
    use(monkeypatch, TorchBackend(devices))
    settings = PlanSettings(batch_size=16, chunk_rows=100, **chosen)
    found, host = (make_plan(make_pair("hubs", 333), settings.changed(device=name)).perm for name in ("cuda", "cpu"))
    assert np.array_equal(found, host)


@pytest.mark.parametrize("loss", ["infonce", "symmetric", "simclr", "bsc", "triplet"])
@DEALT
def test_reports_are_within_1e_5_of_those_of_the_cpu(loss, devices, monkeypatch):
    use(monkeypatch, TorchBackend(devices))
    pair = make_pair("hubs", 500)
    perm = np.random.default_rng(0).permutation(500)
    settings = ReportSettings(loss=[loss], batch_sizes=[16], trials=3, chunk_rows=170)
    found, host = (make_reports(pair, perm, settings.changed(device=name))[0] for name in ("cuda", "cpu"))
    for figure in FIGURES:
        value = host.at(figure.path)
        assert found.at(figure.path) == (None if value is None else pytest.approx(value, abs=1e-5)), figure.path


def test_a_graph_that_does_not_fit_goes_to_the_host(monkeypatch):
    pair, listener, settings = make_pair("related", 333), Listener(), PlanSettings(batch_size=16, quantile=0.98)

    def full(*_, **__):
        raise OutOfDeviceMemory("the device is full")

    use(monkeypatch, TorchBackend([DEVICE]))
    monkeypatch.setattr(device_graph, "find_device_graph", full)
    found = make_plan(pair, settings.changed(device="cuda"), listener)
    assert np.array_equal(found.perm, make_plan(pair, settings.changed(device="cpu")).perm)
    assert "the device's memory does not suffice for the graph; using the host's" in listener.notes
    with pytest.raises(BadInput, match="--max-memory"):
        make_plan(pair, settings.changed(device="cuda", max_memory=1 << 16))


def test_warming_up_says_nothing_and_makes_the_kernel_of_each_gpu_that_there_is(capfd, monkeypatch):
    warmed = []
    monkeypatch.setattr("gcbs_cli.products.devices._cuda_device_count", lambda: 2)
    monkeypatch.setattr("gcbs_cli.products.torch_device.pair_flags", warmed.append)
    for name in ("cpu", "cuda:7,7", "cuda:0,1"):
        warm_up(name)
    assert (warmed, capfd.readouterr()) == (["cuda:0", "cuda:1"], ("", ""))


RNG = np.random.default_rng(1)
PATH = RNG.permutation(300)
STAR = [np.full(2999, 7), np.arange(1, 3000)]
GRAPHS = {
    "no-edge": (30, [[], []]),
    "one-edge": (2, [[1], [0]]),
    "star": (3000, STAR),
    "path": (300, [PATH[:-1], PATH[1:]]),
    "many-components": (2000, RNG.integers(2000, size=(2, 900))),
    "dense": (80, RNG.integers(80, size=(2, 2500))),
    "hubs": (3000, np.hstack([RNG.integers(3000, size=(2, 3000)), STAR])),
}


def both(nodes, ends):
    graph = adjacency_from_pairs(nodes, *np.array(ends, np.int32))
    return graph, DeviceGraph(*(torch.from_numpy(part).to(DEVICE) for part in (graph.indptr, graph.indices)))


@pytest.fixture(params=GRAPHS)
def graphs(request):
    """One graph on the host and on a device."""
    return both(*GRAPHS[request.param])


@pytest.mark.parametrize("entries_at_once", [1, 50, ENTRIES_AT_ONCE])
def test_the_order_is_that_of_the_sequential_search(graphs, entries_at_once):
    graph, on_device = graphs
    assert np.array_equal(plan_cm_on_device(on_device, entries_at_once), plan_cm(graph))


@pytest.mark.parametrize("entries_at_once", [333, ENTRIES_AT_ONCE])
def test_the_graph_from_pairs_and_its_measures_are_those_of_the_host(graphs, entries_at_once):
    graph, on_device = graphs
    ends = np.stack([graph.row_of_entry(), graph.indices])
    once = torch.from_numpy(ends[:, ends[0] < ends[1]])
    shuffled = torch.randperm(graph.edges, generator=torch.Generator().manual_seed(0))
    ends = once[:, shuffled].to(DEVICE)
    indptr, indices = rows_of_pairs(graph.nodes, ends, entries_at_once=entries_at_once)
    assert np.array_equal(indptr.cpu(), graph.indptr)
    assert np.array_equal(indices.cpu(), graph.indices)
    assert (indptr.dtype, indices.dtype) == (torch.int64, torch.int32)
    orders = np.arange(graph.nodes), np.random.default_rng(2).permutation(graph.nodes)
    found = on_device.measure(orders, 7, entries_at_once=entries_at_once)
    assert found == graph.measure(orders, 7)
