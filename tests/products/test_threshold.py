"""The threshold at a quantile, against a full sort of int64 products."""

from contextlib import contextmanager, nullcontext
from fractions import Fraction
from itertools import product
from math import ceil

import numpy as np
import pytest
import reference
from unit_data import KINDS, make_pair, numbers_of, unit

from gcbs_cli.data.grid import BYTES, FINE, make_grid
from gcbs_cli.products import threshold
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.threshold import draw_sample, find_threshold, rank_of
from gcbs_cli.settings.plan import GraphSettings
from gcbs_cli.system.errors import BadInput

QUANTILES = [0.001, 0.2, 0.5, 0.9, 0.99, 0.9999]


def estimate(grid, q, method, progress=None):
    return find_threshold(grid, GraphSettings(quantile=q, quantile_method=method), 0, CpuBackend(2), progress)


@contextmanager
def rows_read(sample=40, chunk=1024):
    """Samples of so many rows, and chunks of so many."""
    with pytest.MonkeyPatch.context() as patch:
        for name, rows in {"LEAST_ROWS": sample, "MOST_ROWS": sample, "CHUNK_ROWS": chunk}.items():
            patch.setattr(threshold, name, rows)
        yield


def _small(grid, q, seed=0, rows=40):
    with rows_read(rows):
        return draw_sample(grid, q, seed)


@pytest.mark.parametrize("largest", [BYTES, FINE], ids=["bytes", "fine"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_estimator_gives_the_quantile_of_what_it_reads(kind, largest):
    pair = make_pair(kind, 150, seed=3)
    grid = make_grid(pair.x, pair.y, largest)
    numbers = numbers_of(grid)
    for q in QUANTILES:
        whole = estimate(grid, q, "sample")
        assert whole.number == reference.quantile_of(reference.off_diagonal(numbers), q)
        sample = _small(grid, q)
        drawn = numbers[np.ix_(sample.rows, sample.cols)][sample.rows[:, None] != sample.cols]
        with rows_read():
            found = {m: estimate(grid, q, m) for m in ("sample", "exact")}
        assert found["sample"].number == reference.quantile_of(drawn, q)
        for height, median in ((37, 2), (38, 1)):  # of five chunks, and of four, where the lower one is taken
            parts = [reference.off_diagonal(numbers[top : top + height], top) for top in range(0, 150, height)]
            chunks = sorted(reference.quantile_of(part, q) for part in parts)
            with rows_read(chunk=height):
                assert estimate(grid, q, "chunks").number == chunks[median]
        assert found["exact"].number == whole.number
        achieved = float((reference.off_diagonal(numbers) <= whole.number).mean())
        for exact in (whole, found["exact"]):
            assert exact.sampled == 0
            assert exact.interval == pytest.approx((achieved, achieved), abs=1e-12)
        assert {t.similarity for t in found.values()} == {grid.similarity(t.number) for t in found.values()}


def test_a_threshold_given_is_the_number_that_its_similarity_means():
    pair = make_pair("related", 80)
    given_ = GraphSettings(threshold=0.25)
    found = find_threshold(pair.grid, given_, 0, CpuBackend(1))
    assert (found.similarity, found.requested, found.interval, found.sampled) == (0.25, None, None, 0)
    numbers = numbers_of(pair.grid)
    assert np.array_equal(numbers > found.number, (numbers + pair.grid.constant) / pair.grid.scale**2 > 0.25)
    again = GraphSettings(threshold=estimate(pair.grid, 0.9, "sample").similarity)
    assert find_threshold(pair.grid, again, 0, CpuBackend(1)).number == reference.quantile_of(
        reference.off_diagonal(numbers), 0.9
    )


def test_ranks_are_those_of_the_decimal_that_a_quantile_shows():
    for quantile, rows in product((0.55, 0.56, 0.999, 0.9999), range(40_000, 50_000, 250)):
        assert rank_of(quantile, rows**2) == rows**2 + 1 - ceil(Fraction(str(quantile)) * rows**2)


def test_a_sample_is_drawn_by_the_seed_and_as_large_as_the_quantile_needs():
    draws = np.random.default_rng([5, 0x9C8])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threshold, "LEAST_ROWS", 1)
        sample = draw_sample(make_pair("related", 150).grid, 0.92, 5)
    for drawn in (sample.rows, sample.cols):  # of 112² entries a thousand are above the quantile
        assert np.array_equal(drawn, np.sort(draws.choice(150, 112, replace=False)))


def test_the_interval_is_the_jackknifes_on_the_logarithm_of_the_tail():
    sample = _small(make_pair("hubs", 150).grid, 0.9)
    for number in (sample.number(0.9), int(sample.numbers.max())):
        above = sample.numbers > number
        apart = sample.rows[:, None] != sample.cols
        tail, least, centre = above[apart].mean(), 1 / apart.sum(), above.mean()
        assert not above[~apart].any()
        assert sample.share_above(number) == pytest.approx(tail)
        variance = 0.0
        for axis in (0, 1):
            without = [np.delete(above, line, axis).mean() for line in range(40)]
            variance += 39 / 40 * np.square(without - centre).sum() * (1 - 40 / 150)
        factor = np.exp(1.959964 * np.sqrt(variance) / max(tail, least))
        expected = 1 - max(tail, least) * factor, 1 - tail / factor
        assert sample.interval(number) == pytest.approx(expected, abs=1e-7)


def test_an_exact_quantile_holds_its_tail_alone_and_says_how_far_it_is(monkeypatch):
    grid, seen = make_pair("related", 150).grid, []
    with rows_read(chunk=30):
        estimate(grid, 0.99, "chunks", lambda *said: seen.append(said))
    assert seen == sorted(seen)
    assert seen[-1] == (150**2, 150**2)
    for room in (2000, 100):  # of 22,500 entries; four times the 225 above the quantile are read
        monkeypatch.setattr("gcbs_cli.products.threshold.available_memory", lambda room=room: 8 * room + 7)
        refused = pytest.raises(BadInput, match="room for 100; use a higher --quantile")
        with rows_read(), nullcontext() if room == 2000 else refused:
            estimate(grid, 0.99, "exact")


def test_the_interval_covers_the_achieved_quantile():
    """A nominal 95 %; 62 of 70 leaves room for the luck of the seeds."""
    generator, rows, q = np.random.default_rng(8), 3000, 0.98
    x, y = generator.normal(size=(2, rows, 6))
    x[:, 0] += generator.normal(scale=2.0, size=rows)  # rows of x differ in how near they are to all of y
    y[:, 0] += 1.5
    grid = make_grid(unit(x), unit(y))
    numbers, covered = np.sort(reference.off_diagonal(numbers_of(grid))[::7]), 0
    for seed in range(70):
        sample = _small(grid, q, seed, rows=500)
        t = sample.number(q)
        low, high = sample.interval(t)
        achieved = np.searchsorted(numbers, t, "right") / len(numbers)
        covered += low <= achieved <= high
    assert covered >= 62
