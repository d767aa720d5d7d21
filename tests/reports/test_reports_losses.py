"""Losses that are means of log sums against one positive: on every device, for many rows and on odd ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from second_reading import Case
from unit_data import make_pair, of_loss, unit

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.reports.build import make_reports
from gcbs_cli.reports.figures import FIGURES
from gcbs_cli.settings.report import Loss, ReportSettings

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
    loss = LOSSES[name]
    asked = {"kind": loss.kind, "queue": loss.queue_batches, "queue_mode": loss.queue_mode, "top": loss.top}
    case = Case(pair.x, pair.y, batch_size, temperature, NOBODY, drop_last=drop_last, **asked)
    expected = case.of_order(perm)
    found = {path: report.at(f"{path}.plan") for path in OF_PLAN} | {path: report.at(path) for path in OF_ALL}
    assert found == pytest.approx({path: expected[path] for path in found}, abs=rounding)
