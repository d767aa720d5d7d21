"""Work dealt to several devices gives what one gives; the CPU stands twice for two GPUs."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported

import threading
from importlib.util import find_spec

import numpy as np
import pytest
from unit_data import make_pair

torch = pytest.importorskip("torch")

from gcbs_cli.planning.on_device import find_device_plan
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products import device_edges, devices
from gcbs_cli.products.device_edges import DevicePairs, find_device_edges
from gcbs_cli.products.devices import devices_named, may_mean_several
from gcbs_cli.products.several_devices import SeveralDevices
from gcbs_cli.reports.build import ReportSettings, make_reports
from gcbs_cli.settings.plan import GraphSettings, PlanSettings
from gcbs_cli.system.errors import BadInput, GcbsError
from gcbs_cli.system.threads import OwnedByThreads, all_at_once, in_order

TWICE = ["cpu", "cpu"]
LONGEST_WAIT = 60.0
"""Seconds that threads wait for each other; they need milliseconds."""


@pytest.fixture(params=["torch", "triton"])
def fused(request: pytest.FixtureRequest) -> bool:
    if request.param == "triton" and find_spec("triton") is None:
        pytest.skip("needs Triton")
    return request.param == "triton"


def same(left: object, right: object) -> bool:
    """Whether arrays, lists of them, or dataclasses of them have the same bits."""
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    if hasattr(left, "__dataclass_fields__"):
        return all(same(getattr(left, name), getattr(right, name)) for name in left.__dataclass_fields__)
    return left == right


def as_set(pairs: DevicePairs) -> set[tuple[int, int]]:
    return set(zip(pairs.lower.tolist(), pairs.higher.tolist(), strict=True))


def test_threads_begun_together_own_a_thing_each_and_keep_it() -> None:
    owned, together = OwnedByThreads(["a", "b", "c"]), threading.Barrier(3)

    def look(number: int) -> tuple[str, str]:
        first = owned.mine
        together.wait(LONGEST_WAIT)
        return first, owned.mine

    found = all_at_once(range(3), look)
    assert sorted(first for first, _ in found) == ["a", "b", "c"]
    assert all(first == second for first, second in found)


def test_an_error_in_one_thread_is_raised_and_ends_the_work() -> None:
    done: list[int] = []

    def work(number: int) -> int:
        if number == 3:
            raise GcbsError("of the third")
        done.append(number)
        return number

    with pytest.raises(GcbsError, match="of the third"):
        list(in_order(2, range(1000), work))
    assert len(done) < 20


@pytest.mark.parametrize("kind", ["related", "duplicates", "at-threshold"])
def test_edges_come_in_the_order_of_one_device(kind: str, fused: bool) -> None:
    pair = make_pair(kind, 400)
    threshold = float(np.quantile(pair.x.astype(float) @ pair.y.astype(float).T, 0.97, method="higher"))
    one, two = (find_device_edges(pair, threshold, names, fused=fused, strip_rows=128) for names in (["cpu"], TWICE))
    assert torch.equal(one.pairs.lower, two.pairs.lower)
    assert torch.equal(one.pairs.higher, two.pairs.higher)
    assert one.entries_above == two.entries_above


def test_no_edges_at_all(fused: bool) -> None:
    found = find_device_edges(make_pair("related", 300), 2.0, TWICE, fused=fused, strip_rows=128)
    assert (len(found.pairs.lower), found.entries_above) == (0, 0)


@pytest.mark.parametrize("method", ["rcm", "cm"])
def test_a_graph_found_by_several_has_the_same_order_and_measures(method: str) -> None:
    pair = make_pair("hubs", 500)
    one, two = (find_device_plan(pair, 0.7, names, strip_rows=128) for names in (["cpu"], TWICE))
    assert np.array_equal(one.order(method), two.order(method))
    assert one.measure(one.order(method), 16) == two.measure(two.order(method), 16)
    assert (one.edges, one.achieved_quantile) == (two.edges, two.achieved_quantile)


def test_only_the_device_whose_memory_runs_out_takes_smaller_strips(
    fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = make_pair("related", 768)
    wanted = find_device_edges(pair, 0.7, ["cpu"], fused=fused, strip_rows=256)
    kind = device_edges._FusedSearch if fused else device_edges._PlainSearch
    plain, strips, both_begun = kind.__call__, {}, threading.Barrier(2)
    tight: list[object] = []

    def search(self, start: int, stop: int):
        if self not in strips:
            both_begun.wait(LONGEST_WAIT)
        strips.setdefault(self, []).append(stop - start)
        if start == 0 and stop == 256:
            tight.append(self)
        if self in tight and stop - start > 128:
            raise torch.OutOfMemoryError("no room")
        return plain(self, start, stop)

    monkeypatch.setattr(kind, "__call__", search)
    found = find_device_edges(pair, 0.7, TWICE, fused=fused, strip_rows=256)
    assert as_set(found.pairs) == as_set(wanted.pairs)
    assert found.entries_above == wanted.entries_above
    (small,) = tight
    (large,) = (other for other in strips if other is not small)
    assert strips[small][:3] == [256, 128, 128]
    assert set(strips[small][1:]) == {128}
    assert set(strips[large]) == {256}


def test_a_device_that_holds_no_strip_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_fits(self, start: int, stop: int) -> None:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(device_edges._PlainSearch, "__call__", none_fits)
    with pytest.raises(
        GcbsError,
        match=r"not suffice for strips of 128 rows in the search for edges on cpu; use a",
    ):
        find_device_edges(make_pair("related", 600), 0.7, TWICE, fused=False)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if PyTorch saw two."""
    monkeypatch.setattr(devices, "_cuda_device_count", lambda: 2)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("cpu", ["cpu"]),
        ("cuda", ["cuda:0"]),
        ("cuda:1", ["cuda:1"]),
        ("cuda:0,1", ["cuda:0", "cuda:1"]),
        ("cuda:1,0", ["cuda:1", "cuda:0"]),
        ("cuda:all", ["cuda:0", "cuda:1"]),
    ],
)
def test_what_names_mean(two_gpus: None, name: str, meant: list[str]) -> None:
    assert devices_named(name) == meant
    assert may_mean_several(name) == (len(meant) > 1)
    if len(meant) > 1:
        assert SeveralDevices(meant).name == {"cuda:all": "cuda:0,1"}.get(name, name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cuda:0,7", "--device cuda:0,7: PyTorch sees 2 GPUs, cuda:0 to cuda:1, here"),
        ("cuda:2", "--device cuda:2: PyTorch sees 2 GPUs"),
        ("cuda:0,0", "--device cuda:0,0: names cuda:0 twice"),
        ("cuda:0,1,1", "--device cuda:0,1,1: names cuda:1 twice"),
        ("cuda:", "--device cuda:: expected auto, cpu, cuda"),
        ("cuda:0,", "--device cuda:0,: expected auto"),
        ("cuda:0,cpu", "--device cuda:0,cpu: expected auto"),
        ("cuda:-1", "--device cuda:-1: expected auto"),
        ("cuda:²", "--device cuda:²: expected auto"),
        ("gpu", "--device gpu: expected auto"),
        ("cpu,cpu", "--device cpu,cpu: expected auto"),
    ],
)
def test_names_that_mean_nothing(two_gpus: None, name: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        devices_named(name)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(("there", "seen"), [(0, "no GPU here"), (1, "one GPU, cuda:0, here")])
def test_fewer_gpus_than_named(there: int, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_cuda_device_count", lambda: there)
    with pytest.raises(BadInput, match=f"--device cuda:0,1: PyTorch sees {seen}"):
        devices_named("cuda:0,1")
    if there == 0:
        with pytest.raises(BadInput, match="--device cuda:all: PyTorch sees no GPU"):
            devices_named("cuda:all")
    else:
        assert devices_named("cuda:all") == ["cuda:0"]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize(
    "graph", [GraphSettings(quantile=0.999), GraphSettings(graph="top-m")], ids=["quantile", "top-m"]
)
def test_two_gpus_give_the_plan_and_the_report_of_one(graph: GraphSettings) -> None:
    pair = make_pair("related", 30_000)
    one, two = (make_plan(pair, PlanSettings.of(graph=graph, device=name)) for name in ("cuda:0", "cuda:0,1"))
    assert two.device == "cuda:0,1"
    assert np.array_equal(one.perm, two.perm)
    assert one.figures == two.figures
    reports = [make_reports(pair, one.perm, ReportSettings.of(device=name))[0] for name in ("cuda:0", "cuda:0,1")]
    assert reports[0].gap.reduction == pytest.approx(reports[1].gap.reduction, abs=1e-9)
