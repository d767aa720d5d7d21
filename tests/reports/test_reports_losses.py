from functools import cache

import numpy as np
import pytest
import reference
from unit_data import grid_matrix, make_pair, of_loss, unit

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.reports.build import make_reports, outwards
from gcbs_cli.settings.report import Loss, LossKind, QueueMode, ReportSettings

TEMPERATURES = (1e-3, 0.01, 0.05, 0.5, 10.0)
QUEUE = 2
LOSSES = {
    "infonce": Loss(LossKind.INFONCE),
    "symmetric": Loss(LossKind.SYMMETRIC),
    "simclr": Loss(LossKind.SIMCLR),
    "moco": Loss(LossKind.INFONCE, QUEUE, QueueMode.MOCO),
    "xbm": Loss(LossKind.SYMMETRIC, QUEUE, QueueMode.XBM),
}
SHAPES = {
    "remainder": (38, 7),
    "batch-of-one-left": (22, 7),
    "full-batches": (28, 7),
    "one-batch": (20, 20),
    "more-than-half": (20, 13),
    "two-rows": (2, 2),
}
MARGIN = 0.95


def tolerance(temperature):
    """1e-5 for mean losses; a float32 similarity is off by about 2⁻²⁴, and the temperature divides that."""
    return max(1e-5, 2.0**-22 / temperature)


@cache
def reports_of(kind, rows, batch_size, drop_last=False):
    """The reports of one random plan, by (loss, temperature)."""
    perm = np.random.default_rng([rows, batch_size]).permutation(rows)
    settings = ReportSettings(
        batch_sizes=(batch_size,),
        temperatures=TEMPERATURES,
        quantile=0.97,
        trials=3,
        fn_margin=MARGIN,
        drop_last=drop_last,
        device="cpu",
    )
    pair, reports = make_pair(kind, rows), {}
    for name, loss in LOSSES.items():
        for report in make_reports(pair, perm, settings.changed(**of_loss(loss))):
            reports[name, report.temperature] = report
    return perm, reports


@cache
def suspects_of(kind, rows, threshold):
    return frozenset(reference.suspected_pairs(grid_matrix(kind, rows), threshold, MARGIN))


def reference_of(kind, rows, name, temperature, report):
    pair = make_pair(kind, rows)
    suspects = suspects_of(kind, rows, report.graph.threshold)
    return reference.Losses(pair.x, pair.y, name, temperature, queue=QUEUE, suspects=suspects)


def check_report(report, losses, perm, batch_size, drop_last=False):
    expected = losses.figures(perm, batch_size, drop_last=drop_last)
    found = {
        "global": report.loss.global_,
        "train": report.loss.plan,
        "gap": report.gap.plan,
        "masked_gap": report.gap.masked.plan,
        "translation": report.bounds.translation,
        "logsumexp": report.bounds.logsumexp,
        "probability": report.positive_probability.plan,
    }
    near = tolerance(report.temperature)
    assert found == pytest.approx({name: expected[name] for name in found}, rel=1e-6, abs=near)
    assert report.gap.plan == pytest.approx(report.loss.global_ - report.loss.plan, abs=1e-9 / report.temperature)
    assert report.gap.plan >= 0
    assert report.gap.masked.plan >= 0
    assert report.loss.plan >= 0
    assert report.gap.plan <= report.bounds.translation + near
    assert report.gap.plan <= report.bounds.logsumexp + near
    assert report.positive_probability.global_ == pytest.approx(expected["global_probability"], abs=near)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
def test_losses_are_those_of_brute_force(name, temperature, shape):
    rows, batch_size = SHAPES[shape]
    perm, reports = reports_of("related", rows, batch_size)
    report = reports[name, temperature]
    losses = reference_of("related", rows, name, temperature, report)
    check_report(report, losses, perm, batch_size)
    assert report.gap.oracle == pytest.approx(losses.oracle_gap(batch_size), rel=1e-6, abs=tolerance(temperature))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", ["duplicates", "all-equal", "cosine-1-1e-7", "one-dimension", "hubs", "random"])
def test_losses_where_rounding_and_suspects_abound(kind, name):
    perm, reports = reports_of(kind, 30, 8)
    for temperature in TEMPERATURES:
        report = reports[name, temperature]
        losses = reference_of(kind, 30, name, temperature, report)
        check_report(report, losses, perm, 8)
        assert report.gap.oracle == pytest.approx(losses.oracle_gap(8), rel=1e-6, abs=tolerance(temperature))


@pytest.mark.parametrize("name", LOSSES)
def test_losses_without_the_short_last_batch(name):
    perm, reports = reports_of("related", 38, 7, drop_last=True)
    for temperature in TEMPERATURES:
        report = reports[name, temperature]
        check_report(report, reference_of("related", 38, name, temperature, report), perm, 7, drop_last=True)


@pytest.mark.parametrize("name", LOSSES)
def test_the_information_is_bounded_by_the_keys_that_each_row_saw(name):
    """A queue is empty at first, the last batch is short, and a view of SimCLR sees 2k − 1 keys."""
    perm, reports = reports_of("related", 38, 7)
    for temperature in TEMPERATURES:
        report = reports[name, temperature]
        expected = reference_of("related", 38, name, temperature, report).figures(perm, 7)["information"]
        assert report.mutual_information_bound == pytest.approx(expected, abs=tolerance(temperature))


@pytest.mark.parametrize("name", LOSSES)
def test_what_the_trainer_drops_is_in_no_figure(name):
    perm, reports = reports_of("related", 38, 7, drop_last=True)
    kept = perm[:35]
    for temperature in TEMPERATURES:
        report = reports[name, temperature]
        near = tolerance(temperature)
        losses = reference_of("related", 38, name, temperature, report)
        expected = losses.figures(perm, 7, drop_last=True)
        oracle = losses.oracle_gap(7, kept)
        assert report.gap.oracle == pytest.approx(oracle, rel=1e-6, abs=near)
        assert report.positive_probability.global_ == pytest.approx(expected["global_probability"], abs=near)
        batches = [set(kept[start : start + 7].tolist()) for start in range(0, 35, 7)]
        inside = [
            pair
            for pair in suspects_of("related", 38, report.graph.threshold)
            if any(batch.issuperset(pair) for batch in batches)
        ]
        assert report.false_negatives.suspected_pairs == len(inside)
        assert report.false_negatives.rows == len({row for pair in inside for row in pair})
        edges = reference.edges_above(grid_matrix("related", 38), report.graph.threshold)
        together = sum(any(batch.issuperset(edge) for batch in batches) for edge in edges)
        assert report.in_batch_edge_share.plan == pytest.approx(together / len(edges))


def test_no_plan_closes_more_than_the_oracle_of_the_rows_that_it_keeps():
    """The plan drops the seven rows that are near to every other row's y, and keeps eight whose gap is nothing."""
    axes = np.eye(10, dtype=np.float32)
    x = np.concatenate([axes[:8], np.repeat(axes[8:9], 7, axis=0)])
    y = np.concatenate([unit(axes[:8] + axes[8]), np.repeat(axes[9:], 7, axis=0)])
    settings = ReportSettings(batch_sizes=(8,), **of_loss(LOSSES["infonce"]), trials=3, drop_last=True)
    report = make_reports(PairedRows(x, y), np.arange(15), settings)[0]
    assert report.gap.oracle <= report.gap.plan
    assert report.gap.closed_share <= 1


def test_some_pairs_are_suspected_in_these_tests():
    """Or the masked gaps above would say nothing."""
    for kind in ("related", "duplicates", "hubs", "random"):
        report = reports_of(kind, 30, 8)[1]["symmetric", 0.05]
        assert report.gap.masked.plan != pytest.approx(report.gap.plan, abs=1e-3), kind


def test_the_loss_is_named_as_in_the_reports_schema():
    assert {name: loss.name for name, loss in LOSSES.items()} == {name: name for name in LOSSES}


@pytest.mark.parametrize("name", ["infonce", "symmetric", "simclr", "xbm"])
def test_a_batch_of_all_rows_leaves_no_gap_and_no_ratio(name):
    for kind in ("related", "duplicates", "hubs"):
        _, reports = reports_of(kind, 20, 20)
        for temperature in TEMPERATURES:
            gap = reports[name, temperature].gap
            assert (gap.plan, gap.random_mean, gap.oracle, gap.masked.plan) == (0.0, 0.0, 0.0, 0.0)
            assert (gap.reduction, gap.closed_share, gap.masked.reduction) == (None, None, None)


@pytest.mark.parametrize("tile_rows", [None, 2500], ids=["default-tiles", "one-tall-tile"])
def test_mean_losses_of_many_rows(tile_rows, chosen_backend):
    """Several tiles each way, and sums long enough for float32 to drift."""
    rows, temperature = 2500, 0.05
    generator = np.random.default_rng(7)
    pair = make_pair("related", rows)
    perm = generator.permutation(rows)
    settings = ReportSettings(
        batch_sizes=(64,),
        temperatures=(temperature,),
        trials=1,
        chunk_rows=tile_rows,
        threshold=1.0,
    )
    report = make_reports(pair, perm, settings)[0]
    scaled = pair.x.astype(np.float64) @ pair.y.astype(np.float64).T / temperature
    both = [np.log(np.exp(scaled).sum(axis=axis)).mean() for axis in (0, 1)]
    assert report.loss.global_ == pytest.approx(np.mean(both) - np.diag(scaled).mean(), abs=2e-6)
    train = []
    for start in range(0, rows, 64):
        batch = perm[start : start + 64]
        inside = scaled[np.ix_(batch, batch)]
        train += [np.log(np.exp(inside).sum(axis=axis)) - np.diag(inside) for axis in (0, 1)]
    assert report.loss.plan == pytest.approx(np.concatenate(train).mean(), abs=2e-6)


def test_a_bound_takes_in_the_rounding_of_the_gap_and_hides_no_more():
    assert outwards(1.0, 0.5, 1e-6) == 1.0
    assert outwards(1.0, 1.0 + 1e-8, 1e-6) == 1.0 + 1e-8
    assert outwards(1.0, 1.1, 1e-6) == 1.0


def test_bounds_hold_exactly_where_all_similarities_are_one():
    side = np.ones((496, 3), np.float32) / np.float32(np.sqrt(3))
    pair = PairedRows(side, side.copy())
    for temperature in (0.05, 1.0, 10.0, 1000.0):
        settings = ReportSettings(batch_sizes=[8], temperatures=[temperature], trials=1, device="cpu", fn_margin=2.0)
        report = make_reports(pair, np.arange(496), settings)[0]
        assert report.gap.plan == pytest.approx(np.log(496 / 8), abs=1e-5)
        assert report.gap.plan <= report.bounds.translation <= np.log(496 / 8) + 1e-5
