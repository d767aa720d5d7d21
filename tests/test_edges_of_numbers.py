"""Temperatures from 1e-3 to 10, similarities of ±1, one cluster, d = 1 and 16,384: no overflow, and bounds hold."""

import math
from functools import cache

import numpy as np
import pytest
from unit_data import unit

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.reports.losses import make_reports
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.report import ReportSettings

ROWS = 130
TEMPERATURES = (1e-3, 0.02, 1.0, 10.0)
SLACK = 1e-7
"""Float32 exponentials and their sums."""


@cache
def sides_of():
    """X and Y by name; their rows have any length."""
    rng = np.random.default_rng(0)
    ones, wide = np.ones((ROWS, 4)), rng.normal(size=(ROWS, 16_384))
    signs = rng.choice([-1.0, 1.0], size=(3, ROWS, 1))
    centre = rng.normal(size=(1, 64))
    return {
        "opposite": (signs[0] * ones, -signs[0] * ones),
        "equal": (ones, ones),
        "one cluster": [centre + 1e-4 * rng.normal(size=(ROWS, 64)) for _ in "xy"],
        "one dimension": (signs[1], signs[2]),
        "wide": (wide, wide + rng.normal(size=wide.shape)),
        "orthogonal": (np.eye(ROWS), np.eye(ROWS)),
    }


def numbers(part):
    if isinstance(part, dict):
        return [number for key, value in part.items() if key != "timings" for number in numbers(value)]
    return [part] if isinstance(part, float) else []


@pytest.mark.parametrize("batch_size", [2, 64, ROWS], ids=["k=2", "k=64", "k=N"])
@pytest.mark.parametrize("name", sides_of())
def test_every_figure_is_finite_and_every_bound_holds(name, batch_size):
    pair = PairedRows(*map(unit, sides_of()[name]))
    result = make_plan(pair, PlanSettings(batch_size=batch_size, quantile=0.95, device="cpu"))
    assert sorted(result.perm.tolist()) == list(range(ROWS))
    asked = {"batch_sizes": [batch_size], "temperatures": TEMPERATURES, "loss": ["infonce", "symmetric", "simclr"]}
    settings = ReportSettings(**asked, quantile=0.95, trials=2, device="cpu")
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
