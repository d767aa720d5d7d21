"""Temperatures from 1e-3 to 10, similarities of ±1, one cluster, d = 1 and 16,384: no overflow, and bounds hold."""

import math

import numpy as np
import pytest
from unit_data import unit

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.reports.build import make_reports
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.report import ReportSettings

ROWS = 130
TEMPERATURES = (1e-3, 0.02, 1.0, 10.0)
SLACK = 1e-7
"""Float32 exponentials and their sums."""


def opposite(rng: np.random.Generator) -> PairedRows:
    """Every positive pair has similarity −1, and other pairs ±1."""
    side = unit(rng.choice([-1.0, 1.0], size=(ROWS, 1)) * np.ones((ROWS, 4)))
    return PairedRows(side, -side)


def equal(rng: np.random.Generator) -> PairedRows:
    side = unit(np.ones((ROWS, 3)))
    return PairedRows(side, side.copy())


def one_cluster(rng: np.random.Generator) -> PairedRows:
    centre = rng.normal(size=(1, 64))
    x, y = (unit(centre + 1e-4 * rng.normal(size=(ROWS, 64))) for _ in "xy")
    return PairedRows(x, y)


def one_dimension(rng: np.random.Generator) -> PairedRows:
    x, y = (np.float32(rng.choice([-1.0, 1.0], size=(ROWS, 1))) for _ in "xy")
    return PairedRows(x, y)


def wide(rng: np.random.Generator) -> PairedRows:
    x = rng.normal(size=(ROWS, 16_384))
    return PairedRows(unit(x), unit(x + rng.normal(size=x.shape)))


def orthogonal(rng: np.random.Generator) -> PairedRows:
    side = np.eye(ROWS, dtype=np.float32)
    return PairedRows(side, side.copy())


DATA = [opposite, equal, one_cluster, one_dimension, wide, orthogonal]


def numbers(part: object) -> list[float]:
    if isinstance(part, dict):
        return [number for key, value in part.items() if key != "timings" for number in numbers(value)]
    return [part] if isinstance(part, float) else []


@pytest.mark.parametrize("batch_size", [2, 64, ROWS], ids=["k=2", "k=64", "k=N"])
@pytest.mark.parametrize("make", DATA, ids=lambda make: make.__name__)
def test_every_figure_is_finite_and_every_bound_holds(make, batch_size: int) -> None:
    pair = make(np.random.default_rng(0))
    result = make_plan(pair, PlanSettings(batch_size=batch_size, quantile=0.95, device="cpu"))
    assert sorted(result.perm.tolist()) == list(range(ROWS))
    settings = ReportSettings(
        batch_sizes=[batch_size],
        temperatures=TEMPERATURES,
        loss=["infonce", "symmetric", "simclr"],
        quantile=0.95,
        trials=2,
        device="cpu",
    )
    for report in make_reports(pair, result.perm, settings):
        assert all(math.isfinite(number) for number in numbers(report.model_dump()))
        assert report.gap.plan is not None
        assert report.bounds.translation is not None
        assert report.bounds.logsumexp is not None
        assert -SLACK <= report.gap.plan <= min(report.bounds.translation, report.bounds.logsumexp)
        assert report.gap.oracle <= report.gap.plan + 2.0**-20 / report.temperature
        if batch_size == ROWS:
            assert report.gap.plan <= SLACK
            assert report.gap.reduction is None


@pytest.mark.parametrize("method", ["rcm", "cm", "random"])
@pytest.mark.parametrize("kind", ["quantile", "top-m"])
def test_methods_on_rows_that_are_all_equal(method: str, kind: str) -> None:
    pair = equal(np.random.default_rng(0))
    settings = PlanSettings(batch_size=8, method=method, graph=kind, device="cpu")
    assert sorted(make_plan(pair, settings).perm.tolist()) == list(range(ROWS))
