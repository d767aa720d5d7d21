"""Whole numbers and sums that are the same everywhere, against Python integers, exact sums and float64 products."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit_data import numbers_of, unit

from gcbs_cli.data import grid as grids
from gcbs_cli.data.grid import BYTES, FINE, LARGEST_SUM, make_grid
from gcbs_cli.data.pairs import PairedRows, Positives, pair_values
from gcbs_cli.data.reading import sum_by_halving


def _sides(kind, rows=300, dim=22):
    rng = np.random.default_rng(7)
    if kind == "plain":
        x = rng.normal(size=(rows, dim))
        return unit(x), unit(x + rng.normal(size=x.shape))
    if kind == "a common direction":
        common = 10 * rng.normal(size=dim)
        return unit(rng.normal(size=(rows, dim)) + common), unit(rng.normal(size=(rows, dim)) + common)
    if kind == "tight, sides apart":
        return tuple(unit(rng.normal(size=dim) + 1e-4 * rng.normal(size=(rows, dim))) for _ in "xy")
    if kind == "all rows equal":
        return (np.repeat(unit(rng.normal(size=(1, dim))), rows, axis=0),) * 2
    return unit(rng.normal(size=(rows, dim))), np.repeat(unit(rng.normal(size=(1, dim))), rows, axis=0)


KINDS = ["plain", "a common direction", "tight, sides apart", "all rows equal", "one side equal"]


@pytest.mark.parametrize("largest", [BYTES, FINE], ids=["bytes", "fine"])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_the_similarities_up_to_rounding_and_every_partial_sum_is_exact_in_float32(kind, largest):
    x, y = _sides(kind)
    grid = make_grid(x, y, largest)
    assert grid.x.dtype == grid.y.dtype == (np.int8 if largest == BYTES else np.int16)
    assert max(np.abs(grid.x.astype(int)).max(), np.abs(grid.y.astype(int)).max()) <= largest
    norms = [np.sqrt((side.astype(np.int64) ** 2).sum(axis=1).max()) for side in (grid.x, grid.y)]
    largest_sum = norms[0] * norms[1] + np.abs(grid.x_offsets).max() + np.abs(grid.y_offsets).max()
    assert largest_sum < LARGEST_SUM
    means = [side.mean(axis=0, dtype=np.float64) for side in (x, y)]
    offsets = grid.scale * (grid.x[:, : x.shape[1]] @ means[1])
    assert abs((grid.x_offsets - offsets).mean()) < 0.2  # rounded, not cut off
    exact = x.astype(np.float64) @ y.T.astype(np.float64)
    error = (numbers_of(grid) + grid.constant) / grid.scale**2 - exact
    if kind != "all rows equal":
        assert error.std() < 0.6 / grid.scale
        assert np.abs(error).max() < 4 / grid.scale
        spread = max(np.abs(side - mean).max() for side, mean in zip((x, y), means, strict=True))
        halvings = np.log2(largest / spread / grid.scale)
        assert halvings == pytest.approx(round(halvings), abs=0.01)
        assert round(halvings) == 0 or 4 * largest_sum > 0.99 * LARGEST_SUM  # twice the scale would not do


def test_bytes_are_too_coarse_for_a_tight_cluster_beside_few_rows_that_decide_the_scale(monkeypatch):
    monkeypatch.setattr(grids, "LEAST_MULTIPLICATIONS", 0)
    x, y = _sides("plain", 2000)
    assert make_grid(x, y).x.dtype == np.int8
    near = [np.concatenate([side[:10], unit(x[0] + 0.02 * side[10:])]) for side in (x, y)]
    assert make_grid(*near).x.dtype == np.int16


@pytest.mark.parametrize("rows", [40, 600])
def test_bytes_are_taken_from_so_many_products_on_where_the_tail_rises_by_enough(monkeypatch, rows):
    x, y = _sides("plain", rows)
    fine, some = make_grid(x, y, FINE), np.linspace(0, rows - 1, min(rows, 512)).astype(int)
    numbers = np.sort(numbers_of(fine)[np.ix_(some, some)], axis=None)
    tail = max(1, numbers.size // 1000)
    rise = (numbers[-tail:].mean() - numbers[-tail - 1]) / fine.scale**2
    spread = max(np.abs(side - side.mean(axis=0)).max() for side in (x, y))
    deviations = rise / (0.41 * spread / BYTES)
    for least, products, dtype in ((0.999, 0, np.int8), (1.001, 0, np.int16), (0.999, 1, np.int16)):
        monkeypatch.setattr(grids, "LEAST_TAIL_DEVIATIONS", least * deviations)
        monkeypatch.setattr(grids, "LEAST_MULTIPLICATIONS", x.size * rows + products)
        assert make_grid(x, y).x.dtype == dtype


def test_numbers_and_similarities_are_translated_both_ways():
    grid = make_grid(*_sides("a common direction"))
    for number in (-1000, 0, 12345, LARGEST_SUM):
        assert grid.number(grid.similarity(number)) == number
    numbers = numbers_of(grid)
    t = grid.number(0.9)
    assert np.array_equal(numbers > t, (numbers + grid.constant) / grid.scale**2 > 0.9)


def test_rows_without_any_spread_are_all_zero():
    side = np.tile(np.float32([0.5, -0.5, 0.5, 0.5]), (100_000, 1))
    grid = make_grid(side, side)
    assert grid.x.dtype == np.int8
    assert not grid.x.any()
    assert grid.similarity(0) == pytest.approx(1.0, abs=1e-3)


def halving_by_definition(row):
    values = [float(value) for value in row]
    while len(values) & (len(values) - 1):
        values.append(0.0)
    while len(values) > 1:
        half = len(values) // 2
        values = [values[i] + values[i + half] for i in range(half)]
    return values[0]


@given(rows=st.integers(1, 9), dim=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
def test_sum_is_the_definition_bit_for_bit(rows, dim, seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows, dim)) * 10.0 ** rng.integers(-8, 8, (rows, dim))
    assert sum_by_halving(values.copy()).tolist() == [halving_by_definition(row) for row in values]


def test_a_sum_of_negative_zeros_is_zero():
    assert math.copysign(1, sum_by_halving(np.full((1, 4), -0.0))[0]) == 1


@given(rows=st.integers(1, 40), dim=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_values_of_pairs_are_the_definition_wherever_they_stand(rows, dim, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, rows, dim)).astype(np.float32)
    i, j = rng.integers(0, rows, (2, 3 * rows)).astype(np.int32)
    values = pair_values(PairedRows(x, y), i, j)
    for n in range(len(i)):
        products = x[i[n]].astype(np.float64) * y[j[n]].astype(np.float64)
        assert values[n] == halving_by_definition(products)
        assert abs(values[n] - math.fsum(products.tolist())) <= 1e-14 * dim
    assert PairedRows(x, y).diagonal()[rows - 1] == halving_by_definition(
        x[-1].astype(np.float64) * y[-1].astype(np.float64)
    )


def test_rows_with_the_same_id_are_positives_of_each_other():
    ids = np.array([4, 1, 4, 7, 1, 4])
    places, others = Positives(ids).of(np.array([5, 3, 0]))
    assert [others[places == place].tolist() for place in range(3)] == [[0, 2, 5], [3], [0, 2, 5]]
    assert Positives(ids).most == 3
