"""An earlier plan's threshold is kept where a sample confirms it, and the manifest says so."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner
from unit_data import make_pair, unit

from gcbs_cli.cli.app import app
from gcbs_cli.products.quantile import confirm_threshold, estimate_quantile
from gcbs_cli.settings.plan import GraphSettings
from gcbs_cli.system.errors import BadInput


@pytest.fixture
def folder(tmp_path):
    x, y = (np.random.default_rng(seed).normal(size=(1500, 24)) for seed in (0, 1))
    for epoch, amount in (("first", 0.0), ("second", 0.02), ("other", 3.0)):
        moved = np.random.default_rng(7).normal(size=x.shape) * amount
        moved[:, 0] += amount
        np.save(tmp_path / f"{epoch}-x.npy", unit(x + moved))
        np.save(tmp_path / f"{epoch}-y.npy", unit(y + x + moved))
    return tmp_path


def plan(folder, epoch, output, *options):
    sides = [str(folder / f"{epoch}-{side}.npy") for side in "xy"]
    done = CliRunner().invoke(app, ["plan", *sides, "-o", str(folder / output), "-q", *options])
    if done.exit_code:
        return done
    return json.loads((folder / f"{output}.manifest.json").read_text())["entries"][-1]


@pytest.mark.parametrize("named", ["perm.npy", "perm.npy.manifest.json"])
def test_the_threshold_of_an_epoch_before_is_kept(folder, named):
    first = plan(folder, "first", "perm.npy")
    second = plan(folder, "second", "next.npy", "--warm-start", str(folder / named))
    assert second["quantile"]["threshold"] == first["quantile"]["threshold"]
    assert second["quantile"]["method"] == "warm-start"
    assert second["quantile"]["interval"][0] <= 0.999 <= second["quantile"]["interval"][1]
    assert second["method_settings"]["warm_start"] == first["permutation_hash"]
    again = plan(folder, "second", "again.npy", "--warm-start", str(folder / named))
    assert again["permutation_hash"] == second["permutation_hash"]


def test_a_threshold_that_no_longer_fits_is_estimated_anew(folder):
    plan(folder, "first", "perm.npy")
    moved = plan(folder, "other", "next.npy", "--warm-start", str(folder / "perm.npy"))
    afresh = plan(folder, "other", "afresh.npy")
    assert moved["quantile"] == afresh["quantile"]
    assert moved["permutation_hash"] == afresh["permutation_hash"]


def test_confirming_looks_at_the_quantile():
    pair = make_pair("related", 1300)
    found = estimate_quantile(pair, 0.99)
    confirmed = confirm_threshold(pair, 0.99, found.threshold)
    assert confirmed is not None
    assert confirmed.confirmed
    assert confirmed.sample_rows == 1024
    assert confirm_threshold(pair, 0.9, found.threshold) is None
    assert confirm_threshold(pair, 0.999, found.threshold) is None


def test_what_holds_no_threshold_is_refused(folder):
    missing = plan(folder, "first", "perm.npy", "--warm-start", str(folder / "none.npy"))
    assert missing.exit_code == 2
    plan(folder, "first", "random.npy", "--method", "random")
    without = plan(folder, "first", "perm.npy", "--warm-start", str(folder / "random.npy"))
    assert without.exit_code == 2
    assert not (folder / "perm.npy").exists()


@pytest.mark.parametrize("other", [{"threshold": 0.5}, {"pairs": "all"}])
def test_options_that_leave_no_quantile_to_estimate_are_refused(other):
    with pytest.raises(BadInput, match="--warm-start"):
        GraphSettings(warm_start=0.4, **other)
