"""The losses that are means of log sums against one positive, with all that a report says of them, against loops."""

from functools import cache

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from unit_data import grid_matrix, make_pair, of_loss, unit

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.reports.build import make_reports
from gcbs_cli.reports.figures import FIGURES
from gcbs_cli.settings.report import Loss, ReportSettings

TEMPERATURES = (1e-3, 0.01, 0.05, 0.5, 10.0)
QUEUE = 2
LOSSES = {
    "infonce": Loss("infonce"),
    "symmetric": Loss("symmetric"),
    "simclr": Loss("simclr"),
    "moco": Loss("infonce", QUEUE, "moco"),
    "xbm": Loss("symmetric", QUEUE, "xbm"),
    "symmetric-top-3": Loss("symmetric", top=3),
    "xbm-top-9": Loss("symmetric", QUEUE, "xbm", top=9),
}
DATA = {
    "remainder": ("related", 38, 7),
    "last-dropped": ("related", 38, 7),
    "batch-of-one-left": ("related", 22, 7),
    "full-batches": ("related", 28, 7),
    "one-batch": ("related", 20, 20),
    "more-than-half": ("related", 20, 13),
    "two-rows": ("related", 2, 2),
    **{kind: (kind, 30, 8) for kind in ("duplicates", "all-equal", "cosine-1-1e-7", "one-dimension", "hubs", "random")},
}
MARGIN = 0.95


def tolerance(temperature):
    """1e-5 for mean losses; a float32 similarity is off by about 2⁻²⁴, and the temperature divides that."""
    return max(1e-5, 2.0**-22 / temperature)


@cache
def suspects_of(kind, rows, threshold):
    return frozenset(reference.suspected_pairs(grid_matrix(kind, rows), threshold, MARGIN))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("case", DATA)
def test_figures_are_those_of_brute_force(case, name):
    kind, rows, size = DATA[case]
    drop_last, perm = case == "last-dropped", np.random.default_rng([rows, size]).permutation(rows)
    kept, pair = perm[: rows - rows % size] if drop_last else perm, make_pair(kind, rows)
    settings = ReportSettings(
        batch_sizes=[size],
        temperatures=TEMPERATURES,
        quantile=0.97,
        trials=3,
        fn_margin=MARGIN,
        drop_last=drop_last,
        device="cpu",
        **of_loss(LOSSES[name]),
    )
    for report in make_reports(pair, perm, settings):
        tau, near = report.temperature, tolerance(report.temperature)
        suspects = suspects_of(kind, rows, report.graph.threshold)
        losses = reference.Losses(pair.x, pair.y, name, tau, queue=QUEUE, suspects=suspects)
        expected = losses.figures(perm, size, drop_last=drop_last) | {"oracle": losses.oracle_gap(size, kept)}
        assert (report.loss_kind, report.mutual_information_bound is None) == (name, "top" in name)
        found = {
            "global": report.loss.global_,
            "train": report.loss.plan,
            "gap": report.gap.plan,
            "masked_gap": report.gap.masked.plan,
            "oracle": report.gap.oracle,
            "translation": report.bounds.translation,
            "logsumexp": report.bounds.logsumexp,
            "probability": report.positive_probability.plan,
            "global_probability": report.positive_probability.global_,
            # Chosen negatives bound no information.
            "information": report.mutual_information_bound if "top" not in name else expected["information"],
            "least": report.objective.translation.plan,
            "largest": report.objective.logsumexp.plan,
            "accuracy": report.accuracy.plan,
            "global_accuracy": report.accuracy.global_,
            "positive": report.similarity.positive,
            "negative": report.similarity.negative.plan,
            "global_negative": report.similarity.negative.global_,
        }
        assert found == pytest.approx(expected, rel=1e-6, abs=near)
        assert report.gap.plan == pytest.approx(report.loss.global_ - report.loss.plan, abs=1e-9 / tau)
        assert min(report.gap.plan, report.gap.masked.plan, report.loss.plan, report.gap.oracle) >= 0
        assert report.gap.plan <= min(report.bounds.translation, report.bounds.logsumexp)
        if kind in ("duplicates", "hubs", "random") and (name, tau) == ("symmetric", 0.05):
            assert found["masked_gap"] != pytest.approx(found["gap"], abs=1e-3)  # some pairs are suspected
        batches = [set(kept[start : start + size].tolist()) for start in range(0, len(kept), size)]
        inside = [pair for pair in suspects if any(batch.issuperset(pair) for batch in batches)]
        assert report.false_negatives.suspected_pairs == len(inside)
        assert report.false_negatives.rows == len({row for pair in inside for row in pair})
        edges = reference.edges_above(grid_matrix(kind, rows), report.graph.threshold)
        together = sum(any(batch.issuperset(edge) for batch in batches) for edge in edges)
        assert report.in_batch_edge_share.plan == (pytest.approx(together / len(edges)) if edges else None)
        if case == "one-batch" and name != "moco" and "top" not in name:
            gap = report.gap
            assert (gap.plan, gap.random_mean, gap.oracle, gap.masked.plan) == (0.0, 0.0, 0.0, 0.0)
            assert (gap.reduction, gap.closed_share, gap.masked.reduction) == (None, None, None)


@pytest.mark.parametrize("name", [*LOSSES, "bsc", "triplet"])
def test_backends_and_tiles_agree(name, backend, monkeypatch):
    pair, perm = make_pair("related", 60), np.random.default_rng(6).permutation(60)
    loss = LOSSES.get(name) or Loss(name)
    settings = ReportSettings(batch_sizes=[7], trials=2, quantile=0.97, device="cpu", **of_loss(loss))
    expected = make_reports(pair, perm, settings)[0]
    monkeypatch.setattr("gcbs_cli.reports.basis.choose_backend", lambda device: backend)
    for tile_rows in (None, 17):
        found = make_reports(pair, perm, settings.changed(chunk_rows=tile_rows))[0]
        for figure in FIGURES:
            value = expected.at(figure.path)
            wanted = None if value is None else pytest.approx(value, rel=1e-6, abs=2e-6)
            assert found.at(figure.path) == wanted, figure.path


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
@examples(deadline=None, max_examples=80)
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
    losses = reference.Losses(pair.x, pair.y, name, temperature, queue=QUEUE)
    expected = losses.figures(perm, batch_size, drop_last=drop_last)
    found = {"gap": report.gap.plan, **report.bounds.model_dump()}
    assert found == pytest.approx({figure: expected[figure] for figure in found}, abs=rounding)
