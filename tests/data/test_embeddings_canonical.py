"""Sums in one fixed order, compared with exact sums and with the definition written out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gcbs_cli.data import dot_pairs, dot_rows, sum_by_halving


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
    kept = values.copy()
    sums = sum_by_halving(values)
    assert sums.tolist() == [halving_by_definition(row) for row in values]
    np.testing.assert_array_equal(values, kept)


def test_sum_takes_leading_axes_and_float32() -> None:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(sum_by_halving(values), values.sum(axis=-1, dtype=np.float64))
    assert sum_by_halving(values[0, 0]).shape == ()
    assert math.copysign(1, sum_by_halving(np.full((1, 4), -0.0))[0]) == 1


@given(rows=st.integers(1, 40), dim=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_dot_rows_is_near_the_exact_sum_and_the_same_alone_or_among_others(rows: int, dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, rows, dim)).astype(np.float32)
    dots = dot_rows(a, b)
    for i in range(rows):
        exact = math.fsum(float(p) * float(q) for p, q in zip(a[i], b[i], strict=True))
        assert abs(dots[i] - exact) <= 1e-14 * dim
        assert dot_rows(a[i : i + 1], b[i : i + 1])[0] == dots[i]


def test_dot_rows_over_several_slices_and_strided_input() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 7000, 96)).astype(np.float32)
    expected = [halving_by_definition(p.astype(np.float64) * q.astype(np.float64)) for p, q in zip(a, b, strict=True)]
    assert dot_rows(a, b).tolist() == expected
    np.testing.assert_array_equal(dot_rows(a[::-2], np.asfortranarray(b)[::-2]), dot_rows(a, b)[::-2])
    i, j = rng.integers(0, 7000, (2, 9000))
    np.testing.assert_array_equal(dot_pairs(a, b, i, j), dot_rows(a[i], b[j]))
    assert len(dot_rows(a[:0], b[:0])) == 0


def test_dot_rows_refuses_other_shapes() -> None:
    with pytest.raises(ValueError, match=r"\(3, 2\) and \(2, 3\)"):
        dot_rows(np.zeros((3, 2), np.float32), np.zeros((2, 3), np.float32))
