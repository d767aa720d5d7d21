"""The torch path on one GPU where there is one, else on torch's CPU device: products, plans and reports of the CPU."""

import threading

import numpy as np
import pytest
import torch
from unit_data import make_pair, unit

from gcbs_cli.data.grid import BYTES, FINE, make_grid
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.devices import warm_up
from gcbs_cli.products.operations import Tile, cut
from gcbs_cli.products.torch_device import TorchBackend
from gcbs_cli.reports.figures import FIGURES
from gcbs_cli.reports.losses import make_reports
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.report import ReportSettings

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"
TWICE = [DEVICE, DEVICE]
"""The same device as two: tiles are dealt to two threads."""
GRIDS = pytest.mark.parametrize("largest", [BYTES, FINE], ids=["bytes", "11-bits"])
DEALT = pytest.mark.parametrize("devices", [[DEVICE], TWICE], ids=["one", "two"])
LONGEST_WAIT = 60.0
"""Seconds that threads wait for each other; they need milliseconds."""


def grid_of(rows, dim, largest):
    """Of related sides with equal rows, hubs and a common direction."""
    generator = np.random.default_rng([rows, dim])
    x = generator.normal(size=(rows, dim)) + 0.5
    x[: rows // 7] = x[0]
    y = x + generator.normal(size=x.shape)
    y[: rows // 20] += 2.0
    return make_grid(unit(x), unit(y), largest)


def use(monkeypatch, backend):
    """Where plans and reports choose their device, they get this one: on the CPU, torch's stands for a GPU."""
    for module in ("gcbs_cli.planning.plan", "gcbs_cli.reports.basis"):
        monkeypatch.setattr(f"{module}.choose_backend", lambda name, _: CpuBackend() if name == "cpu" else backend)


@GRIDS
@pytest.mark.parametrize("dim", [3, 100, 768])
def test_products_are_whole_numbers_which_float16_holds(dim, largest):
    grid = grid_of(300, dim, largest)
    for side in (grid.x, grid.y):
        assert np.array_equal(side.astype(np.float16), side)
    backend = TorchBackend([DEVICE])
    product = backend.product(backend.load(grid.x, grid.y), Tile(slice(5, 300), slice(1, 294)))
    assert np.array_equal(product.cpu(), grid.x[5:300].astype(np.int64) @ grid.y[1:294].T.astype(np.int64))


@DEALT
@pytest.mark.parametrize(
    "chosen",
    [
        {"quantile": 0.98},
        {"quantile": 0.98, "method": "cm", "fn_margin": 0.95, "refine": True},
        {"quantile": 0.98, "quantile_method": "exact"},
        {"graph": "top-m", "top": 4, "refine": True},
        {"rank_window": (2, 8)},
        {"method": "random"},
    ],
    ids=["rcm", "suspicion", "exact quantile", "top-m, refined", "rank window", "random"],
)
@pytest.mark.parametrize("kind", ["hubs", "duplicates", "at-threshold"])
def test_plans_and_figures_are_those_of_the_cpu(kind, chosen, devices, monkeypatch):
    use(monkeypatch, TorchBackend(devices))
    settings = PlanSettings(batch_size=16, chunk_rows=100, **chosen)
    there, here = (make_plan(make_pair(kind, 333), settings.changed(device=name)) for name in ("cuda", "cpu"))
    assert np.array_equal(there.perm, here.perm)
    assert there.figures == here.figures


@pytest.mark.parametrize("loss", ["infonce", "symmetric", "simclr", "bsc", "triplet"])
@DEALT
def test_reports_are_within_1e_5_of_those_of_the_cpu(loss, devices, monkeypatch):
    use(monkeypatch, TorchBackend(devices))
    pair = make_pair("hubs", 500)
    perm = np.random.default_rng(0).permutation(500)
    settings = ReportSettings(loss=[loss], batch_sizes=[16], trials=3, chunk_rows=170)
    there, here = (make_reports(pair, perm, settings.changed(device=name))[0] for name in ("cuda", "cpu"))
    for figure in FIGURES:
        value = here.at(figure.path)
        assert there.at(figure.path) == (None if value is None else pytest.approx(value, abs=1e-5)), figure.path


def test_every_device_makes_tiles_of_a_pass():
    together, used = threading.Barrier(2), set()

    class Watched(TorchBackend):
        def product(self, loaded, tile):
            if self.owned.mine not in used:
                used.add(self.owned.mine)
                together.wait(LONGEST_WAIT)
            return super().product(loaded, tile)

    backend = Watched(TWICE)
    loaded = backend.load(np.eye(8, dtype=np.float32), np.eye(8, dtype=np.float32))
    list(backend.run(cut(8, 8, 1, 8), lambda tile: backend.product(loaded, tile)))
    assert used == {0, 1}


def test_warming_up_says_nothing_and_makes_the_context_of_each_gpu_that_there_is(capfd, monkeypatch):
    warmed = []
    monkeypatch.setattr("gcbs_cli.products.devices._cuda_device_count", lambda: 2)
    monkeypatch.setattr("torch.empty", lambda size, device: warmed.append(device))
    for name in ("cpu", "cuda:7,7", "cuda:0,1"):
        warm_up(name)
    assert (warmed, capfd.readouterr()) == (["cuda:0", "cuda:1"], ("", ""))
