"""Products of bytes: what they may lose is bounded, and what is found is what float64 finds."""

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from unit_data import KINDS, exact_matrix, make_pair, unit

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products import screening_backend
from gcbs_cli.products.backend import float32_error
from gcbs_cli.products.byte_kernels import byte_kernels
from gcbs_cli.products.byte_screen import ByteScreen, round_rows
from gcbs_cli.products.edges import find_exceedances
from gcbs_cli.products.numpy_backend import NumpyBackend
from gcbs_cli.products.screening_backend import ScreeningBackend
from gcbs_cli.products.tiles import Tile, cut

needs_kernels = pytest.mark.skipif(byte_kernels() is None, reason="this processor has no AVX-512 VNNI")


@pytest.fixture
def always(monkeypatch) -> ScreeningBackend:
    """A backend that screens with bytes whether or not it pays."""
    monkeypatch.setattr(ScreeningBackend, "_pays", lambda *_: True)
    return ScreeningBackend(workers=2, least_products=0)


def places(found, rows):
    return found.rows.astype(np.int64) * rows + found.cols


def check(pair, exact, threshold, backend, tile_rows=None):
    found = find_exceedances(pair, threshold, backend, tile_rows=tile_rows)
    assert np.array_equal(np.sort(places(found, pair.rows)), np.flatnonzero(exact >= threshold))
    assert np.abs(found.values - exact[found.rows, found.cols]).max(initial=0) <= float32_error(pair.dim) + 1e-15
    assert np.array_equal(np.sort(places(found.above(), pair.rows)), np.flatnonzero(exact > threshold))


@needs_kernels
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_screened_entries_are_those_of_float64(kind, share, always):
    pair, exact = make_pair(kind, 130), exact_matrix(kind, 130)
    check(pair, exact, float(np.sort(exact.reshape(-1))[int(share * (exact.size - 1))]), always)


@needs_kernels
@pytest.mark.parametrize("tile_rows", [1, 11, 12, 13, 300, 5000])
def test_tiles_that_end_within_a_block(tile_rows, always):
    check(make_pair("related", 2085), exact_matrix("related", 2085), 0.6, always, tile_rows)


@needs_kernels
@pytest.mark.parametrize("threshold", [-1.0, -0.3, 0.0, 1.0])
def test_negative_thresholds_and_those_that_everything_passes(threshold, always):
    check(make_pair("related", 150), exact_matrix("related", 150), threshold, always)


@needs_kernels
@given(
    seed=st.integers(0, 2**32), rows=st.integers(2, 70), dim=st.integers(1, 70), spread=st.sampled_from([0.0, 1.0, 6.0])
)
@settings(deadline=None, max_examples=60)
def test_generated_rows_with_repeats_and_coordinates_of_very_different_size(seed, rows, dim, spread):
    generator = np.random.default_rng(seed)
    pool = unit(generator.normal(size=(rows, dim)) * np.exp(spread * generator.normal(size=(rows, dim))))
    pair = PairedRows(pool[generator.integers(rows, size=rows)], pool[generator.integers(rows, size=rows)])
    exact = reference.similarity_matrix(pair.x, pair.y)
    screen = ByteScreen(byte_kernels(), pair.x, pair.y)
    whole = Tile(slice(0, rows), slice(0, rows))
    for threshold in generator.choice(exact.reshape(-1), 3):
        found = screen.reaching(whole, float(threshold), np.empty((2, rows * rows), np.int32))
        reached = set(zip(found.rows.tolist(), found.cols.tolist(), strict=True))
        assert reached >= set(map(tuple, np.argwhere(exact >= threshold).tolist()))
        assert len(reached) == len(found.rows)


@needs_kernels
def test_the_bound_leaves_few_candidates_beyond_the_threshold():
    """A screen that lets everything through would pass every other test."""
    pair, exact = make_pair("1003-dimensions", 400), exact_matrix("1003-dimensions", 400)
    found = ByteScreen(byte_kernels(), pair.x, pair.y).reaching(
        Tile(slice(0, 400), slice(0, 400)), 0.1, np.empty((2, 160_000), np.int32)
    )
    values = exact[found.rows, found.cols]
    assert np.count_nonzero(exact >= 0.1) <= len(values) < np.count_nonzero(exact >= 0.07)


def test_residuals_bound_what_rounding_loses():
    rows = make_pair("related", 300).x
    kept = round_rows(rows)
    numbers = kept.numbers[:, : rows.shape[1]].astype(np.float64)
    lost = np.linalg.norm(rows.astype(np.float64) - numbers * kept.scales[:, None].astype(np.float64), axis=1)
    assert (lost <= kept.residuals + 1e-6).all()
    assert np.abs(numbers).max() == 127


@pytest.mark.parametrize("reason", ["no kernels", "slower", "few products", "many dimensions"])
def test_plain_products_serve_where_bytes_do_not(reason, monkeypatch):
    if reason == "no kernels":
        monkeypatch.setattr(screening_backend, "byte_kernels", lambda: None)
    monkeypatch.setattr(ScreeningBackend, "_pays", lambda *_: reason != "slower")
    monkeypatch.setattr(screening_backend, "MOST_DIM", 4 if reason == "many dimensions" else 10**6)
    backend = ScreeningBackend(workers=1, **({} if reason == "few products" else {"least_products": 0}))
    monkeypatch.setattr(screening_backend, "ByteScreen", None)
    check(make_pair("hubs", 90), exact_matrix("hubs", 90), 0.4, backend)


@needs_kernels
def test_tiles_that_no_block_fits_are_multiplied(always):
    pair, exact = make_pair("related", 100), exact_matrix("related", 100)
    find = always.finder(pair.x, pair.y, 0.5)
    with always.running():
        parts = [(tile, find(tile)) for tile in cut(100, 100, 30, tile_cols=17)]
    found = {
        (int(r) + tile.rows.start, int(c) + tile.cols.start)
        for tile, part in parts
        for r, c in zip(part.rows, part.cols, strict=True)
    }
    assert found >= set(map(tuple, np.argwhere(exact >= 0.5).tolist()))


@needs_kernels
@pytest.mark.parametrize("first_is_quicker", [True, False])
def test_the_trial_decides_by_time(first_is_quicker, monkeypatch):
    heard = iter([1.0, 2.0] if first_is_quicker else [2.0, 1.0])
    monkeypatch.setattr(screening_backend, "_seconds", lambda find, tile: find(tile) and next(heard))
    x = make_pair("related", 50).x
    assert ScreeningBackend(workers=1)._pays(byte_kernels(), x, x, 0.5) is first_is_quicker


def test_both_backends_give_the_same_entries_and_values():
    pair = make_pair("hubs", 700)
    for threshold in (0.2, 0.9):
        one = find_exceedances(pair, threshold, ScreeningBackend(workers=2, least_products=0))
        other = find_exceedances(pair, threshold, NumpyBackend())
        order, expected = np.argsort(places(one, 700)), np.argsort(places(other, 700))
        assert np.array_equal(places(one, 700)[order], places(other, 700)[expected])
        assert np.abs(one.values[order] - other.values[expected]).max(initial=0) < 1e-6
