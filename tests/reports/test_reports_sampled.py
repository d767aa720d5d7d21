"""Reports on a sample: all batches give the whole report, and intervals cover it; reports that memory does not hold."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from unit_data import Listener, make_pair, stream_of

from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.reports import sampled
from gcbs_cli.reports.basis import RowFacts, forecast_report
from gcbs_cli.reports.losses import make_reports
from gcbs_cli.reports.sampled import _estimate, plan_log, sampled_report
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system import limits as memory
from gcbs_cli.system.errors import BadInput

ROWS, SIZE, TEMPERATURE = 1920, 16, 0.1
PAIR = make_pair("related", ROWS)
PERM = make_plan(PAIR, PlanSettings(batch_size=SIZE)).perm


def settings_of(**changed):
    return ReportSettings(batch_sizes=[SIZE], temperatures=[TEMPERATURE], **changed)


@pytest.mark.parametrize("loss", ["symmetric", "infonce"])
def test_all_batches_give_the_whole_report(loss):
    whole = make_reports(PAIR, PERM, settings_of(loss=loss, seed=1))[0]
    found = sampled_report(stream_of(PAIR), PERM, ROWS, settings_of(loss=[loss]))
    assert found.rows == ROWS
    assert found.loss.global_.value == pytest.approx(whole.loss.global_, abs=1e-5)
    assert found.gap.plan.value == pytest.approx(whole.gap.plan, abs=1e-5)
    assert found.gap.plan.low == found.gap.plan.high == found.gap.plan.value  # nothing was left out
    assert found.gap.random_mean.low < whole.gap.random_mean < found.gap.random_mean.high
    assert found.gap.reduction.low < whole.gap.reduction < found.gap.reduction.high
    with pytest.raises(BadInput, match=r"^--max-memory 1.0 MiB: the report would need about .* use fewer --rows"):
        sampled_report(stream_of(PAIR), PERM, ROWS, settings_of(loss=[loss], max_memory=1 << 20))


def test_the_intervals_cover_and_are_students_for_few_batches():
    """Of 20 seeds, 95 % intervals miss 1 on average; more than 5 happen once in some thousands."""
    whole = make_reports(PAIR, PERM, settings_of())[0]
    missed = dict.fromkeys(("gap.plan", "gap.reduction", "loss.global"), 0)
    for seed in range(20):
        found = sampled_report(stream_of(PAIR, 1 << 18), PERM, 640, settings_of(seed=seed))
        for path in missed:
            missed[path] += not found.at(path).low <= whole.at(path) <= found.at(path).high
    assert max(missed.values()) <= 5, missed
    means = np.random.default_rng(0).normal(size=30)
    expected = stats.t.interval(0.95, 29, loc=means.mean(), scale=stats.sem(means))
    found = _estimate(means)
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-12)


LOGGED = {
    "learnable": "learnable_share.plan",
    "learnable_random": "learnable_share.random_mean",
    "L_train": "loss.plan",
    "L_train_random": "loss.random_mean",
    "suspects": "false_negatives.suspected_pairs",
    "suspects_random": "false_negatives.random",
    "L_global": "loss.global",
    "gap": "gap.plan",
    "reduction": "gap.reduction",
}


@pytest.mark.parametrize("changed", [{}, {"loss": "infonce", "drop_last": True, "seed": 3, "fn_margin": 0.8}])
def test_a_log_has_the_figures_of_the_report_and_of_a_sample_an_interval_that_holds_them(monkeypatch, changed):
    pair, groups = make_pair("related", 700), np.arange(700) // 3
    perm = make_plan(pair, PlanSettings(batch_size=SIZE)).perm
    settings = settings_of(trials=3, threshold=0.4, **changed)
    whole = make_reports(pair, perm, settings, facts=RowFacts(groups=groups))[0]
    expected = {name: pytest.approx(whole.at(path), rel=1e-5) for name, path in LOGGED.items()}
    if settings.drop_last:  # random orders of a report drop other rows, for which L_global is another one
        expected["reduction"] = pytest.approx(whole.gap.reduction, abs=2e-3)
    assert plan_log(pair, perm, settings, groups) == expected | {"interval": 0.0}
    monkeypatch.setattr(sampled, "LOGGED_ROWS", 200)
    figures = plan_log(pair, perm, settings, groups)
    assert 0 < abs(figures["gap"] - whole.gap.plan) < 1.5 * figures["interval"] < 0.3 * whole.gap.plan
    assert figures["L_global"] == figures["L_train"] + figures["gap"]


def test_no_figure_ends_a_training(monkeypatch):
    settings = settings_of(trials=1)
    assert "reduction" not in plan_log(make_pair("related", SIZE), np.arange(SIZE), settings)
    monkeypatch.setattr(sampled, "batch_sums", lambda *_: 1 / 0)
    with pytest.warns(UserWarning, match="no figures of this plan: division by zero"):
        assert plan_log(PAIR, PERM, settings) == {}


def test_the_command_says_value_and_interval(gcbs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, rows in (("x.npy", PAIR.x), ("y.npy", PAIR.y), ("perm.npy", PERM)):
        np.save(name, rows)
    words = ["report", "x.npy", "y.npy", "-p", "perm.npy", "-k", "16", "--rows", "800"]
    result = gcbs(*words, "--json", "-o", "report.json")
    record = json.loads(result.stdout)
    assert record == json.loads(Path("report.json").read_text())
    assert record["batches"] == 50
    assert record["gap"]["reduction"]["low"] < record["gap"]["reduction"]["value"]
    text = gcbs(*words).output
    found = record["gap"]["reduction"]
    assert f"{found['value']:.1%} ± {found['value'] - found['low']:.1%} of random's gap" in text
    assert "800 of 1,920 rows, ± 95 %" in text


def test_too_little_memory_is_said_before_the_pass_with_what_would_fit(monkeypatch):
    pair, settings = make_pair("related", 700), ReportSettings(batch_sizes=[8], trials=1, quantile=0.5)
    forecast = forecast_report(pair, settings, choose_backend("cpu"), 7)
    limited = settings.changed(max_memory=(forecast.fixed + forecast.bytes) // 2)
    with pytest.raises(BadInput, match=r"^--max-memory .*: the report would need about") as refused:
        make_reports(pair, None, limited, listener := Listener())
    assert listener.done == []
    assert "\n" not in str(refused.value)
    larger = re.search(
        r"--max-memory (\d+M) would fit, or use fewer rows, in gcbs report by --rows", str(refused.value)
    )
    a_row = re.search(r"; ([\d.]+) entries a row would fit", str(refused.value))
    for fits in (
        settings.changed(max_memory=larger[1]),
        limited.changed(quantile=None, per_row=0.95 * float(a_row[1])),
    ):
        assert make_reports(pair, None, fits)[0].n == 700
    monkeypatch.setattr(memory, "_free_on_machine", lambda: 1 << 20)
    with pytest.raises(BadInput, match="of memory can be used: the report would need about"):
        make_reports(pair, None, settings)
