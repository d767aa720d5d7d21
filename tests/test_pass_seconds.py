"""The seconds of a forecast come from the work that the pass will do."""

import time

import numpy as np
import pytest
from unit_data import make_pair

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.forecast import Forecast, describe, warn_of_long_pass
from gcbs_cli.planning.pass_seconds import seconds_of_edges, seconds_of_lists, seconds_of_sums
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products import byte_screen, double_search, hardest_keys
from gcbs_cli.products.byte_kernels import byte_kernels
from gcbs_cli.products.numpy_backend import NumpyBackend
from gcbs_cli.products.screening_backend import ScreeningBackend
from gcbs_cli.reports.build import make_reports
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.progress import Progress

SLOW = 0.02


def slowed(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[int]:
    """Make a method take SLOW seconds more a call; returns the list to which each call adds."""
    calls: list[int] = []
    right = getattr(owner, name)

    def slow(*args, **kwargs):
        calls.append(1)
        time.sleep(SLOW)
        return right(*args, **kwargs)

    monkeypatch.setattr(owner, name, slow)
    return calls


def test_a_tight_cluster_is_timed_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 1.0 + 1e-5 * np.random.default_rng(0).normal(size=(2000, 16))
    side = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    pair, backend = PairedRows(side, side[::-1]), NumpyBackend(workers=2)
    threshold = float(np.median(side[:50].astype(np.float64) @ side[50:100].astype(np.float64).T))
    calls = slowed(monkeypatch, double_search.DoubleSearch, "reaching")
    tiles = 2000**2 / (512 * 2000)
    assert seconds_of_edges(pair, threshold, backend) > 0.9 * SLOW * tiles / backend.workers
    assert len(calls) >= 4


def test_screening_with_bytes_is_timed_where_the_pass_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    if byte_kernels() is None:
        pytest.skip("this processor has no byte products")
    pair, backend = make_pair("1003-dimensions", 600), ScreeningBackend(workers=1)
    calls = slowed(monkeypatch, byte_screen.ByteScreen, "reaching")
    monkeypatch.setattr(ScreeningBackend, "_pays", lambda *_: True)
    seconds_of_edges(pair, 0.5, backend)
    assert not calls  # a pass of 600 rows is too short for it
    seconds_of_edges(PairedRows(np.tile(pair.x, (20, 1)), np.tile(pair.y, (20, 1))), 0.5, backend)
    assert calls


def test_lists_made_in_full_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = NumpyBackend(workers=1)
    calls = slowed(monkeypatch, hardest_keys.HardestKeys, "in_full")
    assert seconds_of_lists(make_pair("related", 700), None, backend, top=4) > 0
    assert not calls
    equal = make_pair("all-equal", 700)
    assert seconds_of_lists(equal, None, backend, top=4) > 2 * 0.9 * SLOW * 700 / 700
    assert len(calls) == 2


def test_every_temperature_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, backend = make_pair("random", 1500), NumpyBackend(workers=1)
    assert seconds_of_edges(pair, None, backend) == 0.0
    slowed(monkeypatch, NumpyBackend, "log_sums")
    tiles = 1500**2 / 512**2
    assert seconds_of_sums(pair, 0.5, [0.05] * 12, 0.95, backend, hardest=7) > 0.9 * SLOW * 12 * tiles


class Heard(Progress):
    """A watcher that remembers its warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def test_hours_are_said_before_they_pass() -> None:
    heard = Heard()
    assert "about 10 min for the pass" in describe(Forecast(10, 10, 600.0))
    warn_of_long_pass(heard, 600.0, instead="--rows")
    assert heard.warnings == []
    warn_of_long_pass(heard, 4 * 3600.0, instead="--rows is quicker")
    assert heard.warnings[0].startswith("the pass will take about 4.0 h; ")
    assert heard.warnings[0].endswith("; --rows is quicker")


def test_a_plan_and_a_report_of_hours_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gcbs_cli.planning.forecast.seconds_of_edges", lambda *_, **__: 1e5)
    monkeypatch.setattr("gcbs_cli.reports.forecast.seconds_of_sums", lambda *_, **__: 1e5)
    pair, heard = make_pair("related", 60), Heard()
    make_plan(pair, PlanSettings(8), heard)
    make_reports(pair, None, ReportSettings([8], trials=1), heard)
    assert len(heard.warnings) == 2
    assert "--partitions auto" in heard.warnings[0]
    assert "--rows" in heard.warnings[1]
