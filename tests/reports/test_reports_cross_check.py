"""The report's own check of its gap: right itself, quiet when the report is right, loud when it is not."""

import numpy as np
import pytest
import reference
from unit_data import exact_matrix, make_pair

from gcbs_cli.products.backend import float32_error
from gcbs_cli.reports import basis, cross_check, orders
from gcbs_cli.reports import settings as report_settings
from gcbs_cli.reports.build import make_reports
from gcbs_cli.reports.cross_check import entries_above_in_double, row_gaps_in_double, sampled_rows
from gcbs_cli.reports.losses import Loss, LossKind, QueueMode, tolerance
from gcbs_cli.settings.plan import GraphSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.errors import BadInput, GcbsError

TEMPERATURES = (1e-3, 0.05, 10.0)
LOSSES = {
    "infonce": Loss(LossKind.INFONCE),
    "symmetric": Loss(LossKind.SYMMETRIC),
    "simclr": Loss(LossKind.SIMCLR),
    "moco": Loss(LossKind.INFONCE, 2, QueueMode.MOCO),
    "xbm": Loss(LossKind.SYMMETRIC, 2, QueueMode.XBM),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", ["related", "all-equal"])
def test_the_float64_gap_is_that_of_the_definition(name, kind, monkeypatch):
    monkeypatch.setattr(cross_check, "KEYS_AT_ONCE", 7)
    monkeypatch.setattr(cross_check, "QUERIES_AT_ONCE", 5)
    pair, perm = make_pair(kind, 38), np.random.default_rng(1).permutation(38)
    found = row_gaps_in_double(pair, perm, 7, LOSSES[name], TEMPERATURES, perm).gaps.mean(axis=1)
    for number, temperature in enumerate(TEMPERATURES):
        wanted = reference.Losses(pair.x, pair.y, name, temperature, queue=2).figures(perm, 7)["gap"]
        assert found[number] == pytest.approx(wanted, rel=1e-9, abs=1e-11 / temperature)


def settings(**changed):
    return ReportSettings(
        **(
            {"batch_sizes": (8, 60), "temperatures": TEMPERATURES, "losses": tuple(LOSSES.values())}
            | {"graph": GraphSettings(quantile=0.95), "trials": 2, "device": "cpu"}
            | changed
        )
    )


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("kind", ["related", "duplicates", "all-equal", "one-dimension", "at-threshold"])
def test_a_right_report_is_confirmed(kind, verify, monkeypatch, chosen_backend):
    monkeypatch.setattr(cross_check, "SAMPLED_ROWS", 10)
    reports = make_reports(make_pair(kind, 60), np.random.default_rng(2).permutation(60), settings(verify=verify))
    for report in reports:
        assert report.cross_check.rows == (60 if verify else 10)
        assert report.cross_check.difference <= report.cross_check.tolerance
        if verify:
            assert report.cross_check.gap == pytest.approx(report.gap.plan, abs=2 * report.cross_check.tolerance)


def test_only_counted_rows_are_checked():
    report = make_reports(make_pair("related", 60), np.arange(60), settings(batch_sizes=(7,), drop_last=True))[0]
    assert report.cross_check.rows == 56


@pytest.mark.parametrize("fault", ["sums", "edges"])
def test_a_wrong_report_is_refused(fault, monkeypatch):
    if fault == "sums":
        right = orders.batch_sums
        monkeypatch.setattr(
            orders, "batch_sums", lambda pair, perm, *args, **kwargs: right(pair, np.roll(perm, 1), *args, **kwargs)
        )
    else:
        right = basis.global_sums
        monkeypatch.setattr(
            basis,
            "global_sums",
            lambda pair, temperatures, threshold, *args, **kwargs: right(
                pair, temperatures, threshold + 0.01, *args, **kwargs
            ),
        )
    with pytest.raises(GcbsError, match="--verify: .*tell the authors") as error:
        make_reports(make_pair("related", 60), np.random.default_rng(2).permutation(60), settings(verify=True))
    assert error.value.exit_code == 1


def test_entries_above_a_threshold():
    exact = exact_matrix("at-threshold", 60)
    certain, unsure = entries_above_in_double(make_pair("at-threshold", 60), 0.5)
    assert certain == (exact > 0.5).sum()
    assert unsure == (exact == 0.5).sum() > 0


def test_the_tolerance_lets_no_wrong_batch_pass_at_usual_temperatures():
    assert tolerance(float32_error(384), 0.05) < 2e-3
    assert tolerance(float32_error(384), 1.0) < 1e-4


def test_rows_are_drawn_with_the_seed_and_each_once():
    rows = sampled_rows(np.arange(1000), 3)
    assert len(set(rows.tolist())) == cross_check.SAMPLED_ROWS
    assert (rows == sampled_rows(np.arange(1000), 3)).all()
    assert (rows != sampled_rows(np.arange(1000), 4)).any()


def test_verify_says_its_limit(monkeypatch):
    monkeypatch.setattr(report_settings, "MOST_ROWS_IN_FULL", 59)
    with pytest.raises(BadInput, match="--verify: found 60 rows, expected at most 59"):
        make_reports(make_pair("related", 60), np.arange(60), settings(verify=True))
    with pytest.raises(BadInput, match="--verify: .* -p"):
        make_reports(make_pair("related", 20), None, settings(batch_sizes=(8,), verify=True))
