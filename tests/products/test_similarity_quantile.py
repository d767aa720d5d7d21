import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from unit_data import KINDS, exact_matrix, make_pair, unit

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products import canonical_values, quantile_passes, quantile_sample
from gcbs_cli.products.numpy_backend import NumpyBackend
from gcbs_cli.products.quantile import estimate_quantile
from gcbs_cli.products.quantile_estimate import QuantileMethod
from gcbs_cli.products.quantile_sample import draw_sample
from gcbs_cli.system.errors import BadInput

QUANTILES = [0.001, 0.2, 0.5, 0.9, 0.99, 0.9999]
UNTIED = ["random", "related", "1003-dimensions", "hubs"]
EVERYTHING = 1 << 26
SAMPLE, CHUNKS, EXACT = QuantileMethod.SAMPLE, QuantileMethod.CHUNKS, QuantileMethod.EXACT


@pytest.fixture
def small_sample(monkeypatch):
    """Samples of 40 rows and columns, so that a matrix of a few hundred rows is not read whole."""
    monkeypatch.setattr(quantile_sample, "LEAST_SAMPLE_ROWS", 40)
    monkeypatch.setattr(quantile_sample, "MOST_SAMPLE_ROWS", 40)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", [SAMPLE, EXACT])
def test_a_sample_of_the_whole_matrix_gives_its_quantile(kind, method):
    pair, exact = make_pair(kind, 90), exact_matrix(kind, 90)
    for q in QUANTILES:
        found = estimate_quantile(pair, q, method=method)
        assert found.threshold == reference.quantile_of(exact, q)
        achieved = float((exact <= found.threshold).mean())
        assert found.low == pytest.approx(achieved, abs=1e-12)
        assert found.high == pytest.approx(achieved, abs=1e-12)


def test_the_quantile_is_numpys_inverted_cdf():
    pair, exact = make_pair("related", 101), exact_matrix("related", 101)
    for q in (0.1234, 0.5, 0.777, 0.999):
        assert estimate_quantile(pair, q).threshold == np.quantile(exact, q, method="inverted_cdf")


@pytest.mark.parametrize(("kind", "held"), [(kind, EVERYTHING) for kind in KINDS] + [(kind, 2000) for kind in UNTIED])
def test_exact_quantile_is_that_of_brute_force(kind, held, backend, small_sample, monkeypatch):
    pair, values = make_pair(kind, 150, seed=3), exact_matrix(kind, 150, seed=3)
    monkeypatch.setattr(quantile_passes, "ENTRIES_HELD", held)
    for q in QUANTILES:
        found = estimate_quantile(pair, q, method=EXACT, backend=backend)
        assert found.threshold == reference.quantile_of(values, q)
        achieved = float((values <= found.threshold).mean())
        assert (found.low, found.high) == pytest.approx((achieved, achieved), abs=1e-12)


@pytest.mark.parametrize("kind", ["duplicates", "all-equal", "cosine-1-1e-7", "at-threshold"])
@pytest.mark.parametrize("method", QuantileMethod)
def test_quantiles_where_many_entries_are_near_them(kind, method, backend, small_sample, monkeypatch):
    monkeypatch.setattr(canonical_values, "MANY_PAIRS", 30)
    monkeypatch.setattr(quantile_passes, "CHUNK_ROWS", 37)
    pair, values = make_pair(kind, 150, seed=4), exact_matrix(kind, 150, seed=4)
    for q in (0.2, 0.9, 0.9999):
        found = estimate_quantile(pair, q, method=method, backend=backend)
        if method is SAMPLE:
            sample = draw_sample(pair, q, 0)
            expected = reference.quantile_of(values[np.ix_(sample.rows, sample.cols)], q)
        elif method is CHUNKS:
            expected = np.median([reference.quantile_of(values[top : top + 37], q) for top in range(0, 150, 37)])
        else:
            expected = reference.quantile_of(values, q)
        assert found.threshold == expected


def test_exact_refuses_more_equal_entries_than_it_can_order(small_sample, monkeypatch):
    monkeypatch.setattr(quantile_passes, "ENTRIES_HELD", 2000)
    with pytest.raises(BadInput, match=r"--quantile-method exact: .* equal .* use --quantile-method sample"):
        estimate_quantile(make_pair("all-equal", 150), 0.9, method=EXACT)


@given(
    q=st.floats(1e-4, 1 - 1e-4).map(lambda q: round(q, 5)),
    rows=st.integers(2, 60),
    contents=st.integers(1, 60),
    seed=st.integers(0, 2**32),
)
@settings(deadline=None, max_examples=60)
def test_exact_quantile_of_generated_rows(q, rows, contents, seed):
    generator = np.random.default_rng(seed)
    pool = unit(generator.normal(size=(contents, 3)))
    pair = PairedRows(*(pool[generator.integers(contents, size=rows)] for _ in "xy"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantile_sample, "LEAST_SAMPLE_ROWS", 10)
        patch.setattr(quantile_sample, "MOST_SAMPLE_ROWS", 10)
        found = estimate_quantile(pair, q, method=EXACT, backend=NumpyBackend(workers=1))
    assert found.threshold == reference.quantile_of(reference.similarity_matrix(pair.x, pair.y), q)


@pytest.mark.parametrize("kind", ["related", "hubs", "1003-dimensions"])
@pytest.mark.parametrize("sampled", [40, 1000], ids=["sample-of-40", "sample-of-everything"])
def test_chunks_is_the_median_of_the_chunks_quantiles(kind, sampled, backend, monkeypatch):
    monkeypatch.setattr(quantile_sample, "LEAST_SAMPLE_ROWS", sampled)
    monkeypatch.setattr(quantile_sample, "MOST_SAMPLE_ROWS", sampled)
    monkeypatch.setattr(quantile_passes, "CHUNK_ROWS", 32)
    pair, values = make_pair(kind, 150, seed=5), exact_matrix(kind, 150, seed=5)
    for q in QUANTILES:
        chunks = [reference.quantile_of(values[top : top + 32], q) for top in range(0, 150, 32)]
        found = estimate_quantile(pair, q, method=CHUNKS, backend=backend)
        assert found.threshold == pytest.approx(np.median(chunks), abs=1e-15)


def test_chunks_of_very_different_rows(backend, small_sample, monkeypatch):
    """A chunk whose quantile lies far below the others' is read in full."""
    monkeypatch.setattr(quantile_passes, "CHUNK_ROWS", 30)
    x, y = np.random.default_rng(6).normal(size=(2, 150, 6))
    x[:60], y[:] = -np.abs(x[:60]), np.abs(y)
    pair = PairedRows(unit(x), unit(y))
    values = reference.similarity_matrix(pair.x, pair.y)
    for q in (0.9, 0.99, 0.999):
        chunks = [reference.quantile_of(values[top : top + 30], q) for top in range(0, 150, 30)]
        assert min(chunks) < 0 < max(chunks)
        assert estimate_quantile(pair, q, method=CHUNKS, backend=backend).threshold == pytest.approx(
            np.median(chunks), abs=1e-15
        )


def test_the_sample_depends_on_the_seed_alone(small_sample):
    pair = make_pair("related", 300)
    assert estimate_quantile(pair, 0.99, seed=1) == estimate_quantile(pair, 0.99, seed=1)
    assert len({estimate_quantile(pair, 0.99, seed=seed).threshold for seed in range(8)}) == 8
    assert estimate_quantile(pair, 0.99).sample_rows == 40


def test_the_interval_counts_entries_that_equal_the_threshold(small_sample):
    """float32 products of equal rows may round above the threshold; the canonical ones do not."""
    pair = make_pair("all-equal", 300)
    found = estimate_quantile(pair, 0.9)
    assert found.low <= 1.0 <= found.high
    assert draw_sample(pair, 0.9, 0).share_above(found.threshold) == 0.0


def strong_row_effects(rows):
    """Rows of x differ in how near they are to all of y: entries of a row depend on each other."""
    generator = np.random.default_rng(8)
    x, y = generator.normal(size=(2, rows, 6))
    x[:, 0] += generator.normal(scale=2.0, size=rows)
    y[:, 0] += 1.5
    return PairedRows(unit(x), unit(y))


def test_the_interval_covers_the_achieved_quantile(monkeypatch):
    """A nominal 95 %; 62 of 70 leaves room for the luck of the seeds. A binomial interval covers in a few."""
    monkeypatch.setattr(quantile_sample, "LEAST_SAMPLE_ROWS", 500)
    rows = 5000
    pair, q, seeds = strong_row_effects(rows), 0.98, 70
    tail = np.concatenate(
        [part[part > 0.3] for part in ((pair.x[i : i + 500] @ pair.y.T) for i in range(0, rows, 500))]
    )
    tail.sort()
    covered, naive = 0, 0
    for seed in range(seeds):
        found = estimate_quantile(pair, q, seed=seed)
        assert found.sample_rows == 500
        assert found.threshold > 0.3
        achieved = 1 - (len(tail) - np.searchsorted(tail, found.threshold, "right")) / rows**2
        covered += found.low <= achieved <= found.high
        naive += abs(achieved - q) <= 1.96 * np.sqrt(q * (1 - q)) / 500
    assert covered >= 62
    assert naive <= 35


@pytest.mark.parametrize("q", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_quantiles_outside_the_range_are_refused(q):
    with pytest.raises(BadInput, match="--quantile"):
        estimate_quantile(make_pair("random", 10), q)
