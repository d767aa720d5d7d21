"""What needs one GPU or two."""

import numpy as np
import pytest
import torch
from unit_data import make_pair

from gcbs_cli.data.grid import BYTES, make_grid
from gcbs_cli.graph.hard_pairs import find
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.products.torch_device import TorchBackend
from gcbs_cli.reports.losses import make_reports
from gcbs_cli.settings.plan import GraphSettings, PlanSettings
from gcbs_cli.settings.report import ReportSettings

DEVICE = "cuda:0"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_that_runs_out_of_memory_goes_on_with_smaller_tiles():
    pair, backend = make_pair("related", 20_000), TorchBackend([DEVICE])
    grid = make_grid(pair.x, pair.y, BYTES)
    threshold = find_threshold(grid, GraphSettings(quantile=0.9999), 0, backend)
    expected = find(grid, threshold, backend)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(2**30 / torch.cuda.get_device_properties(0).total_memory)
    try:
        halved = find(grid, threshold, backend)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    places = [np.sort(each.entries.rows.astype(np.int64) * 20_000 + each.entries.cols) for each in (halved, expected)]
    assert np.array_equal(*places)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("graph", [{"quantile": 0.999}, {"graph": "top-m"}], ids=["quantile", "top-m"])
def test_two_gpus_give_the_plan_and_the_report_of_one(graph):
    pair = make_pair("related", 30_000)
    one, two = (make_plan(pair, PlanSettings(**graph, device=name)) for name in ("cuda:0", "cuda:0,1"))
    assert two.device == "cuda:0,1"
    assert np.array_equal(one.perm, two.perm)
    assert one.figures == two.figures
    reports = [make_reports(pair, one.perm, ReportSettings(device=name))[0] for name in ("cuda:0", "cuda:0,1")]
    assert reports[0].gap.reduction == pytest.approx(reports[1].gap.reduction, abs=1e-9)
