"""The kernel that sums and lists without products in memory, in Triton's interpreter, against float64 and the CPU."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported

import numpy as np
import pytest
from unit_data import exact_matrix, make_pair

torch = pytest.importorskip("torch")

from gcbs_cli.products.backend import EntryLimits
from gcbs_cli.products.global_sums import global_sums
from gcbs_cli.products.numpy_backend import NumpyBackend
from gcbs_cli.products.suspects import SuspectRule
from gcbs_cli.products.tiles import Tile
from gcbs_cli.products.torch_backend import TorchBackend

pytest.importorskip("triton")

from gcbs_cli.products import fused_tiles
from gcbs_cli.products.fused_tiles import FusedTiles

TEMPERATURES = [1e-3, 0.05, 2.0]
EXPONENT_ERROR = 1e-6
"""Of a float32 similarity; a temperature divides it."""


def log_sums(matrix, temperature, axis):
    scaled = matrix / temperature
    shift = scaled.max(axis=axis, keepdims=True)
    shift = np.where(np.isfinite(shift), shift, 0.0)
    with np.errstate(divide="ignore"):
        return (np.log(np.exp(scaled - shift).sum(axis=axis, keepdims=True)) + shift).squeeze(axis)


def summaries(pair, limits, tile):
    sides = torch.from_numpy(pair.x), torch.from_numpy(pair.y)
    return FusedTiles(*sides, limits, [1 / t for t in TEMPERATURES])(tile)


@pytest.mark.parametrize("suspicion", [-2.0, 0.1, 2.0], ids=["all-left-out", "some-left-out", "none-left-out"])
@pytest.mark.parametrize("kind", ["related", "all-equal"])
def test_sums_and_entries_of_a_tile_are_those_of_float64(kind, suspicion, monkeypatch):
    monkeypatch.setattr(fused_tiles, "FIRST_ROOM", 7)
    pair, exact, count = make_pair(kind, 301), exact_matrix(kind, 301), 301
    threshold, rng = -2.0 if suspicion == -2.0 else 0.3, np.random.default_rng(0)
    row_limits, col_limits = rng.uniform(0.2, 0.9, size=(2, count)).astype(np.float32)
    own = np.full(count, suspicion, np.float32)
    tile = Tile(slice(3, 140), slice(130, 301))
    found = summaries(pair, EntryLimits(threshold, row_limits, col_limits, own), tile)
    part = exact[tile.rows, tile.cols].copy()
    i, j = np.indices(exact.shape)[:, tile.rows, tile.cols]
    listed = part > np.minimum(np.minimum(row_limits[i], col_limits[j]), threshold)
    left_out = (part > max(suspicion, threshold)) & (i != j)
    near = np.abs(part - threshold) < 1e-6
    near |= (np.abs(part - row_limits[i]) < 1e-6) | (np.abs(part - col_limits[j]) < 1e-6)
    assert not near.any()
    rows, cols = np.nonzero(listed)
    assert np.array_equal(found.entries.rows, rows)
    assert np.array_equal(found.entries.cols, cols)
    assert np.abs(found.entries.values - part[rows, cols]).max(initial=0) < EXPONENT_ERROR
    assert np.array_equal(found.left_out, left_out[rows, cols])
    part[left_out] = -np.inf
    for number, temperature in enumerate(TEMPERATURES):
        bound = 1e-6 + EXPONENT_ERROR / temperature
        np.testing.assert_allclose(found.row_sums[number], log_sums(part, temperature, 1), rtol=0, atol=bound)
        np.testing.assert_allclose(found.col_sums[number], log_sums(part, temperature, 0), rtol=0, atol=bound)


@pytest.mark.parametrize("absolute", [None, 0.1])
@pytest.mark.parametrize("kind", ["related", "duplicates", "at-threshold", "1003-dimensions"])
def test_a_report_gets_what_products_on_the_cpu_give(kind, absolute):
    pair, exact = make_pair(kind, 150), exact_matrix(kind, 150)
    threshold = float(np.quantile(exact, 0.97, method="higher"))
    groups = np.where(np.arange(150) % 7 == 0, np.arange(150) // 50, -1)
    rule = SuspectRule(0.95, pair.diagonal(), absolute, groups)
    mine, theirs = (
        global_sums(pair, TEMPERATURES, threshold, rule, 20, backend, tile_rows=rows)
        for backend, rows in ((TorchBackend("cpu", fused=True), 100), (NumpyBackend(workers=1), None))
    )
    for field in ("lower", "higher"):
        assert np.array_equal(getattr(mine.suspects, field), getattr(theirs.suspects, field))
    entries = [
        sorted(zip(found.rows.tolist(), found.cols.tolist(), strict=True))
        for found in (mine.exceedances, theirs.exceedances)
    ]
    assert entries[0] == entries[1]
    for side in ("x", "y"):
        fused, plain = getattr(mine, side), getattr(theirs, side)
        np.testing.assert_allclose(fused.hardest, plain.hardest, rtol=0, atol=EXPONENT_ERROR)
        for number, temperature in enumerate(TEMPERATURES):
            bound = 2e-6 + EXPONENT_ERROR / temperature
            for name in ("log_sums", "masked_log_sums"):
                got, expected = getattr(fused, name)[number], getattr(plain, name)[number]
                np.testing.assert_allclose(got, expected, rtol=0, atol=bound, err_msg=f"{side} {name} {temperature}")


def test_two_runs_give_the_same_bits():
    pair = make_pair("related", 200)
    limits = np.full(200, 0.8, np.float32)
    first, second = (
        summaries(pair, EntryLimits(0.5, limits, limits, limits), Tile(slice(0, 200), slice(0, 200))) for _ in "ab"
    )
    assert np.array_equal(first.row_sums, second.row_sums)
    assert np.array_equal(first.col_sums, second.col_sums)
    assert np.array_equal(first.entries.values, second.entries.values)
