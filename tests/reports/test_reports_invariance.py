import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from unit_data import make_pair, of_loss, unit

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.reports.build import make_reports
from gcbs_cli.settings.report import Loss, LossKind, QueueMode, ReportSettings

WITHOUT_QUEUE = {kind.value: Loss(kind) for kind in LossKind}
QUEUES = {mode.value: Loss(LossKind.INFONCE, 1, mode) for mode in QueueMode}
EVERY_LOSS = WITHOUT_QUEUE | QUEUES
# Several positives and the hardest negative have references of their own, and no bounds on their gap.
OTHER_LOSSES = ("bsc", "triplet")
BOUNDED_LOSSES = [name for name in EVERY_LOSS if name not in OTHER_LOSSES]


def report_of(pair, perm, loss, batch_size=7, **changed):
    chosen = {"temperatures": (0.05,), "trials": 2, "quantile": 0.97, "device": "cpu"} | changed
    return make_reports(pair, perm, ReportSettings(batch_sizes=(batch_size,), **of_loss(loss), **chosen))[0]


def planned_part(report):
    """What depends on the data and the plan, not on the draws of random orders."""
    return {
        "loss": (report.loss.global_, report.loss.plan),
        "gap": (report.gap.plan, report.gap.masked.plan, report.gap.oracle),
        "bounds": (report.bounds.translation, report.bounds.logsumexp),
        "probability": (report.positive_probability.global_, report.positive_probability.plan),
        "graph": tuple(report.graph.model_dump().values()),
        "order": (report.bandwidth.plan, report.profile.plan, report.in_batch_edge_share.plan),
        "suspects": (report.false_negatives.suspected_pairs, report.false_negatives.rows),
        "alignment": (report.alignment, report.mutual_information_bound),
        "uniformity": (report.uniformity.x, report.uniformity.y),
    }


def check_same(one, other, parts=None):
    one, other = planned_part(one), planned_part(other)
    for part in parts or one:
        for first, second in zip(one[part], other[part], strict=True):
            assert first == (None if second is None else pytest.approx(second, rel=1e-6, abs=2e-6)), part


@pytest.mark.parametrize("name", EVERY_LOSS)
@pytest.mark.parametrize("kind", ["related", "duplicates"])
def test_renaming_the_rows_changes_nothing(kind, name):
    pair, generator = make_pair(kind, 40), np.random.default_rng(1)
    perm, names = generator.permutation(40), generator.permutation(40)
    renamed = PairedRows(pair.x[names], pair.y[names])
    new_name = np.argsort(names)
    check_same(report_of(pair, perm, EVERY_LOSS[name]), report_of(renamed, new_name[perm], EVERY_LOSS[name]))


BATCH_PARTS = ("loss", "gap", "bounds", "probability", "suspects")


@pytest.mark.parametrize("name", EVERY_LOSS)
def test_the_order_within_batches_does_not_matter(name):
    pair, generator = make_pair("related", 38), np.random.default_rng(2)
    perm = generator.permutation(38)
    shuffled = np.concatenate([generator.permutation(perm[start : start + 7]) for start in range(0, 38, 7)])
    assert not np.array_equal(perm, shuffled)
    check_same(report_of(pair, perm, EVERY_LOSS[name]), report_of(pair, shuffled, EVERY_LOSS[name]), BATCH_PARTS)


@pytest.mark.parametrize("name", WITHOUT_QUEUE)
def test_the_order_of_full_batches_does_not_matter(name):
    pair, generator = make_pair("related", 38), np.random.default_rng(3)
    perm = generator.permutation(38)
    turned = np.concatenate([perm[14:35], perm[:14], perm[35:]])
    check_same(report_of(pair, perm, EVERY_LOSS[name]), report_of(pair, turned, EVERY_LOSS[name]), BATCH_PARTS)


@pytest.mark.parametrize("name", QUEUES)
def test_the_order_of_batches_matters_to_a_queue(name):
    pair, generator = make_pair("random", 35), np.random.default_rng(4)
    perm = generator.permutation(35)
    turned = np.concatenate([perm[7:], perm[:7]])
    loss = EVERY_LOSS[name]
    assert report_of(pair, perm, loss).loss.plan != pytest.approx(report_of(pair, turned, loss).loss.plan, abs=1e-3)


def test_swapping_the_sides_leaves_the_symmetric_losses():
    pair, perm = make_pair("related", 38), np.random.default_rng(5).permutation(38)
    swapped = PairedRows(pair.y, pair.x)
    for name in ("symmetric", "simclr"):
        check_same(
            report_of(pair, perm, EVERY_LOSS[name]), report_of(swapped, perm, EVERY_LOSS[name]), (*BATCH_PARTS, "order")
        )
    one, other = (report_of(side, perm, EVERY_LOSS["infonce"]) for side in (pair, swapped))
    assert one.loss.plan != pytest.approx(other.loss.plan, abs=1e-3)


@pytest.mark.parametrize("name", BOUNDED_LOSSES)
def test_backends_and_tiles_agree(name, chosen_backend):
    pair, perm = make_pair("related", 60), np.random.default_rng(6).permutation(60)
    both_ways = name in ("symmetric", "simclr")
    expected = reference.Losses(pair.x, pair.y, name, 0.05, queue=1, both_ways=both_ways).figures(perm, 7)
    for tile_rows in (None, 17):
        found = report_of(pair, perm, EVERY_LOSS[name], chunk_rows=tile_rows)
        assert (found.loss.global_, found.gap.plan) == pytest.approx((expected["global"], expected["gap"]), abs=2e-6)


@pytest.mark.parametrize("name", OTHER_LOSSES)
def test_backends_and_tiles_agree_on_the_other_losses(name, backend, monkeypatch):
    pair, perm = make_pair("related", 60), np.random.default_rng(6).permutation(60)
    expected = report_of(pair, perm, EVERY_LOSS[name])
    assert expected.bounds.translation is None
    monkeypatch.setattr("gcbs_cli.reports.basis.choose_backend", lambda device: backend)
    for tile_rows in (None, 17):
        check_same(report_of(pair, perm, EVERY_LOSS[name], chunk_rows=tile_rows), expected)


@given(
    rows=st.integers(2, 24),
    dim=st.integers(1, 5),
    contents=st.integers(1, 24),
    share=st.floats(0, 1),
    temperature=st.sampled_from([0.003, 0.05, 1.0, 50.0]),
    name=st.sampled_from(BOUNDED_LOSSES),
    drop_last=st.booleans(),
    seed=st.integers(0, 2**32),
)
@settings(deadline=None, max_examples=80)
def test_bounds_hold_on_every_input(rows, dim, contents, share, temperature, name, drop_last, seed):
    generator = np.random.default_rng(seed)
    pool = unit(generator.normal(size=(contents, dim)))
    pair = PairedRows(*(pool[generator.integers(contents, size=rows)] for _ in "xy"))
    batch_size = 2 + round(share * (rows - 2))
    perm = generator.permutation(rows)
    report = report_of(
        pair, perm, EVERY_LOSS[name], batch_size, temperatures=(temperature,), drop_last=drop_last, trials=1
    )
    rounding = 1e-6 + 2.0**-21 / temperature
    assert 0 <= report.gap.plan <= report.bounds.translation + rounding
    assert report.gap.plan <= report.bounds.logsumexp + rounding
    assert report.gap.oracle >= 0
    assert 0 <= report.positive_probability.plan <= 1
    if not drop_last and name not in QUEUES:
        assert report.gap.oracle <= report.gap.plan + rounding
        assert report.gap.oracle <= report.gap.random_mean + rounding
    expected = reference.Losses(
        pair.x, pair.y, name, temperature, queue=1, both_ways=name in ("symmetric", "simclr")
    ).figures(perm, batch_size, drop_last=drop_last)
    assert report.gap.plan == pytest.approx(expected["gap"], abs=rounding)
    assert report.bounds.translation == pytest.approx(expected["translation"], abs=rounding)
    assert report.bounds.logsumexp == pytest.approx(expected["logsumexp"], abs=rounding)
