"""Sums in one fixed order, compared with exact sums and with the definition written out."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gcbs_cli.data.normalise import sum_by_halving
from gcbs_cli.data.pairs import PairedRows, pair_values


def halving_by_definition(row: NDArray[np.float64]) -> float:
    values = [float(value) for value in row]
    while len(values) & (len(values) - 1):
        values.append(0.0)
    while len(values) > 1:
        half = len(values) // 2
        values = [values[i] + values[i + half] for i in range(half)]
    return values[0]


@given(rows=st.integers(1, 9), dim=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
def test_sum_is_the_definition_bit_for_bit(rows: int, dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows, dim)) * 10.0 ** rng.integers(-8, 8, (rows, dim))
    assert sum_by_halving(values.copy()).tolist() == [halving_by_definition(row) for row in values]


def test_a_sum_of_negative_zeros_is_zero() -> None:
    assert math.copysign(1, sum_by_halving(np.full((1, 4), -0.0))[0]) == 1


@given(rows=st.integers(1, 40), dim=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_values_of_pairs_are_the_definition_wherever_they_stand(rows: int, dim: int, seed: int) -> None:
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
