import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from unit_data import KINDS, exact_matrix, make_pair, unit

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products import canonical_values
from gcbs_cli.products.edges import find_exceedances
from gcbs_cli.products.numpy_backend import NumpyBackend

ROWS = 130


def check_exceedances(pair, exact, threshold, backend, tile_rows=None):
    """The entries found are those of float64 brute force, each once, and their values are near."""
    found = find_exceedances(pair, threshold, backend, tile_rows=tile_rows)
    places = found.rows.astype(np.int64) * pair.rows + found.cols
    assert np.array_equal(np.sort(places), np.flatnonzero(exact >= threshold))
    assert np.abs(found.values - exact[found.rows, found.cols]).max(initial=0) < 2e-6
    strictly = found.above()
    places = strictly.rows.astype(np.int64) * pair.rows + strictly.cols
    assert np.array_equal(np.sort(places), np.flatnonzero(exact > threshold))


def thresholds_of(exact):
    """Values that entries have exactly, and one between."""
    values = np.sort(exact.reshape(-1))
    return [float(values[int(share * (len(values) - 1))]) for share in (0.0, 0.5, 0.9, 0.99, 1.0)] + [0.123]


@pytest.mark.parametrize("kind", KINDS)
def test_edges_are_those_of_brute_force(kind, backend):
    pair, exact = make_pair(kind, ROWS), exact_matrix(kind, ROWS)
    for threshold in thresholds_of(exact):
        check_exceedances(pair, exact, threshold, backend)


@pytest.mark.parametrize("tile_rows", [1, 7, 64, 1000])
@pytest.mark.parametrize("kind", ["related", "duplicates", "cosine-1-1e-7", "at-threshold"])
def test_edges_do_not_depend_on_the_height_of_tiles(kind, tile_rows, backend):
    pair, exact = make_pair(kind, ROWS), exact_matrix(kind, ROWS)
    check_exceedances(pair, exact, thresholds_of(exact)[2], backend, tile_rows)


@pytest.mark.parametrize("kind", ["duplicates", "all-equal", "cosine-1-1e-7", "at-threshold", "related"])
@pytest.mark.parametrize("many", [0, 40])
def test_edges_where_many_pairs_of_a_tile_are_near_the_threshold(kind, many, backend, monkeypatch):
    monkeypatch.setattr(canonical_values, "MANY_PAIRS", many)
    pair, exact = make_pair(kind, ROWS), exact_matrix(kind, ROWS)
    for threshold in thresholds_of(exact):
        check_exceedances(pair, exact, threshold, backend, tile_rows=50)


def test_edges_across_several_tiles_of_columns(backend):
    check_exceedances(make_pair("at-threshold", 2100), exact_matrix("at-threshold", 2100), 0.5, backend, tile_rows=900)


def test_edges_agree_with_dot_products_rounded_once():
    pair = make_pair("related", 45)
    exact = np.array([[reference.exact_similarity(a, b) for b in pair.y] for a in pair.x])
    threshold = 0.3
    assert np.abs(exact - threshold).min() > 1e-12
    found = find_exceedances(pair, threshold, NumpyBackend(workers=1)).above()
    assert set(zip(found.rows.tolist(), found.cols.tolist(), strict=True)) == set(
        map(tuple, np.argwhere(exact > threshold).tolist())
    )


@pytest.mark.parametrize("threshold", [-1.0, 1.0], ids=["everything", "only-equal-rows"])
def test_edges_at_the_ends_of_the_range(threshold, backend):
    check_exceedances(make_pair("at-threshold", 60), exact_matrix("at-threshold", 60), threshold, backend)


def test_nothing_found_is_an_empty_list_of_the_right_types(backend):
    found = find_exceedances(make_pair("random", 20), 1.0, backend)
    assert (found.rows.dtype, found.cols.dtype, found.values.dtype) == (np.int32, np.int32, np.float64)
    assert len(found.rows) == len(found.cols) == len(found.values) == 0


def test_progress_ends_with_all_entries(backend):
    heard = []
    find_exceedances(make_pair("random", 100), 0.5, backend, tile_rows=30, progress=lambda *now: heard.append(now))
    assert [total for _, total in heard] == [10_000] * 4
    assert [done for done, _ in heard] == [3000, 6000, 9000, 10_000]


def test_an_error_in_a_tile_reaches_the_caller(monkeypatch):
    backend = NumpyBackend(workers=3)

    def failing(*_):
        raise MemoryError("no room for a tile")

    monkeypatch.setattr(backend, "product", failing)
    with pytest.raises(MemoryError, match="no room"):
        find_exceedances(make_pair("random", 100), 0.5, backend, tile_rows=5)


@given(data=st.data(), rows=st.integers(2, 40), dim=st.integers(1, 20), tile_rows=st.integers(1, 50))
@settings(deadline=None, max_examples=60)
def test_edges_of_generated_rows_with_repeats(data, rows, dim, tile_rows):
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    pool = unit(generator.normal(size=(data.draw(st.integers(1, rows)), dim)))
    pair = PairedRows(pool[generator.integers(len(pool), size=rows)], pool[generator.integers(len(pool), size=rows)])
    exact = reference.similarity_matrix(pair.x, pair.y)
    threshold = float(data.draw(st.sampled_from(np.unique(exact).tolist())))
    check_exceedances(pair, exact, threshold, NumpyBackend(workers=1), tile_rows)
