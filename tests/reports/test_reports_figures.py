"""The figures of a report against loops and the definitions, on every device, for many rows and on odd ones."""

from contextlib import nullcontext

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from second_reading import Case
from unit_data import exact_matrix, grid_matrix, make_pair, of_loss, unit

from gcbs_cli.api import report
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.reports import basis
from gcbs_cli.reports.basis import uniformity
from gcbs_cli.reports.figures import FIGURES
from gcbs_cli.reports.losses import make_reports
from gcbs_cli.settings.report import Loss, ReportSettings
from gcbs_cli.system.errors import BadInput

ROWS, BATCH_SIZE = 60, 8


def build_reports(pair, perm, **changed):
    chosen = {"batch_sizes": (BATCH_SIZE,), "quantile": 0.95, "trials": 5, "device": "cpu"}
    return make_reports(pair, perm, ReportSettings(**(chosen | changed)))


@pytest.fixture
def perm():
    return np.random.default_rng(11).permutation(ROWS)


@pytest.mark.parametrize("kind", ["related", "duplicates", "at-threshold", "hubs", "all-equal"])
@pytest.mark.parametrize(("quantile", "margin"), [(0.95, 0.0), (0.95, 0.5), (0.95, 1.0), (0.999, 0.95), (0.95, 1.3)])
def test_the_graph_and_what_the_plan_does_to_it(kind, quantile, margin, perm, chosen_backend):
    report = build_reports(make_pair(kind, ROWS), perm, quantile=quantile, fn_margin=margin)[0]
    exact = grid_matrix(kind, ROWS)
    entries = reference.off_diagonal(exact)
    threshold = reference.quantile_of(entries, quantile)
    edges = reference.edges_above(exact, threshold)
    degrees = [len(near) for near in reference.neighbours_of(ROWS, edges)]
    batches = [perm[start : start + BATCH_SIZE] for start in range(0, ROWS, BATCH_SIZE)]
    planned = reference.bandwidth_profile_share(edges, perm, BATCH_SIZE)
    given = reference.bandwidth_profile_share(edges, np.arange(ROWS), BATCH_SIZE)
    assert report.graph.model_dump() == {
        "threshold": threshold,
        "quantile": pytest.approx(float((entries <= threshold).mean()), abs=1e-12),
        "edges": len(edges),
        "isolated": degrees.count(0),
    }
    assert (report.bandwidth.plan, report.profile.plan) == planned[:2]
    assert (report.bandwidth.identity, report.profile.identity) == given[:2]
    assert report.in_batch_edge_share.plan == (pytest.approx(planned[2]) if edges else None)
    assert (report.in_batch_edge_share.random is None) == (not edges)
    inside = reference.suspected_pairs(exact_matrix(kind, ROWS), report.graph.threshold, margin, batches)
    assert report.false_negatives.margin == margin
    assert report.false_negatives.suspected_pairs == len(inside)
    assert report.false_negatives.rows == len({row for pair in inside for row in pair})


@pytest.mark.parametrize(("most", "fits"), [(2 * ROWS, nullcontext()), (2 * ROWS - 1, pytest.raises(BadInput))])
def test_pairs_of_positives_are_held_up_to_a_number(monkeypatch, most, fits):
    monkeypatch.setattr("gcbs_cli.reports.losses.MOST_PAIRS", most)
    pair = make_pair("related", ROWS)
    with fits:
        report(pair.x, pair.y, loss="bsc", positives=np.arange(ROWS) // 2, batch_size=BATCH_SIZE, trials=1)
    with pytest.raises(BadInput, match="no positive pair is in a batch that counts"):
        report(pair.x, pair.y, labels=[0] * ROWS, batch_size=BATCH_SIZE)


def test_without_a_plan_only_the_plans_figures_are_null(perm):
    pair = make_pair("related", ROWS)
    with_plan, without = (build_reports(pair, order)[0] for order in (perm, None))
    of_parts = {figure.path for figure in FIGURES if figure.path.startswith("coordinates.")}
    of_plans = {"gap.reduction", "gap.closed_share", "gap.masked.reduction", "bounds.translation", "bounds.logsumexp"}
    of_plans |= {"mutual_information_bound", "false_negatives.suspected_pairs"}
    of_plans |= {figure.path for figure in FIGURES if figure.path.endswith(".plan")} | {"false_negatives.rows"}
    assert {figure.path for figure in FIGURES if with_plan.at(figure.path) is None} == of_parts
    assert {figure.path for figure in FIGURES if without.at(figure.path) is None} == of_parts | of_plans
    for path in ("loss.global", "gap.oracle", "gap.random_mean", "graph.edges"):
        assert without.at(path) == pytest.approx(with_plan.at(path), abs=1e-9)


def test_uniformity_of_many_rows_is_sampled(monkeypatch):
    side, backend = make_pair("random", 1500).x, choose_backend("cpu")
    monkeypatch.setattr(basis, "MOST_ROWS", 1500)
    whole = uniformity(side, 0, backend)
    monkeypatch.setattr(basis, "MOST_ROWS", 1000)
    monkeypatch.setattr(basis, "SAMPLED_ROWS", 500)
    sampled = [uniformity(side, seed, backend) for seed in range(5)]
    assert sampled == pytest.approx([whole] * 5, abs=0.05)
    assert len(set(sampled)) == 5
    assert uniformity(side, 3, backend) == pytest.approx(sampled[3], abs=1e-9)
    assert uniformity(make_pair("all-equal", ROWS).x, 0, backend) == pytest.approx(0, abs=1e-6)


LOSSES = {
    "infonce": Loss("infonce"),
    "symmetric": Loss("symmetric"),
    "simclr": Loss("simclr"),
    "moco": Loss("infonce", 2, "moco"),
    "xbm": Loss("symmetric", 2, "xbm"),
    "symmetric-top-3": Loss("symmetric", top=3),
    "xbm-top-9": Loss("symmetric", 2, "xbm", top=9),
}
OF_PLAN = ("loss", "gap", "positive_probability")
OF_ALL = ("loss.global", "gap.oracle", "bounds.translation", "bounds.logsumexp")
NOBODY = 2.0
"""A threshold that no similarity reaches, so that nobody is suspected."""


@pytest.mark.parametrize("tile_rows", [None, 2500], ids=["default-tiles", "one-tall-tile"])
def test_mean_losses_of_many_rows(tile_rows, chosen_backend):
    """Several tiles each way, and sums long enough for float32 to drift."""
    pair = make_pair("related", 2500)
    settings = ReportSettings(batch_sizes=[64], temperatures=[0.05], trials=1, chunk_rows=tile_rows, threshold=1.0)
    report = make_reports(pair, None, settings)[0]
    scaled = pair.x.astype(np.float64) @ pair.y.astype(np.float64).T / 0.05
    both = [np.log(np.exp(scaled).sum(axis=axis)).mean() for axis in (0, 1)]
    assert report.loss.global_ == pytest.approx(np.mean(both) - np.diag(scaled).mean(), abs=2e-6)


@given(
    rows=st.integers(2, 24),
    dim=st.integers(1, 5),
    contents=st.integers(1, 24),
    share=st.floats(0, 1),
    temperature=st.sampled_from([0.003, 0.05, 1.0, 10.0]),
    name=st.sampled_from(list(LOSSES)),
    drop_last=st.booleans(),
    seed=st.integers(0, 2**32),
)
@examples(max_examples=80)
def test_bounds_hold_on_every_input(rows, dim, contents, share, temperature, name, drop_last, seed):
    generator = np.random.default_rng(seed)
    pool = unit(generator.normal(size=(contents, dim)))
    pair = PairedRows(*(pool[generator.integers(contents, size=rows)] for _ in "xy"))
    batch_size = 2 + round(share * (rows - 2))
    perm = generator.permutation(rows)
    settings = ReportSettings(
        batch_sizes=[batch_size], temperatures=[temperature], drop_last=drop_last, trials=1, **of_loss(LOSSES[name])
    )
    report = make_reports(pair, perm, settings)[0]
    rounding = 1e-6 + 2.0**-21 / temperature
    assert 0 <= report.gap.plan <= min(report.bounds.translation, report.bounds.logsumexp)
    assert report.gap.oracle >= 0
    assert 0 <= report.positive_probability.plan <= 1
    if not drop_last and name not in ("moco", "xbm", "xbm-top-9"):
        assert report.gap.oracle <= min(report.gap.plan, report.gap.random_mean) + rounding
    loss = LOSSES[name]
    asked = {"kind": loss.kind, "queue": loss.queue_batches, "queue_mode": loss.queue_mode, "top": loss.top}
    case = Case(pair.x, pair.y, batch_size, temperature, NOBODY, drop_last=drop_last, **asked)
    expected = case.of_order(perm)
    found = {path: report.at(f"{path}.plan") for path in OF_PLAN} | {path: report.at(path) for path in OF_ALL}
    assert found == pytest.approx({path: expected[path] for path in found}, abs=rounding)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_coordinates_are_normalised_from_raw_rows_of_any_type(dtype, perm):
    rng = np.random.default_rng(5)
    x, y = ((3 + rng.normal(size=(ROWS, 12)) * rng.uniform(0.1, 9, 12)).astype(dtype) for _ in "xy")
    asked = {"batch_size": BATCH_SIZE, "temperature": 1.2}
    found = report(x, y, perm, batch_coordinates="min-max", trials=1, **asked).coordinates
    expected = Case(x, y, threshold=1.0, coordinates="min-max", **asked).of_order(perm)
    wanted = expected["coordinates"], expected["coordinates.global"]
    assert (found.plan, found.global_) == pytest.approx(wanted, rel=1e-5)
    asked |= {"positives": np.arange(ROWS), "bsc_mse": 0.3}
    combined = report(x, y, perm, batch_coordinates="min-max", trials=1, **asked).coordinates
    squared = np.square([u @ v - 1 for u, v in zip(unit(x), unit(y), strict=True)]).mean()
    assert combined.plan == pytest.approx(0.3 * found.plan + 0.7 * squared, rel=1e-5)


def test_the_hardest_keys_of_a_wide_batch_count():
    """Wider than what numpy sorts whole when it is asked for a part."""
    pair = make_pair("related", 900)
    found = make_reports(pair, np.arange(900), ReportSettings(batch_sizes=[900], loss_top=3, trials=1))[0]
    expected = Case(pair.x, pair.y, 900, 0.05, NOBODY, top=3).of_order(np.arange(900))
    assert found.loss.plan == pytest.approx(expected["loss"], rel=1e-5)
