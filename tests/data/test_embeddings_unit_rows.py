"""Unit rows against norms taken row by row with math.hypot-like exact sums, and the rows that are refused."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch
from embedding_files import read_unit_rows, refusal
from hypothesis import given
from hypothesis import strategies as st

from gcbs_cli.data.opening import from_array, open_arrays, open_pair


def read(array, **settings):
    return read_unit_rows(from_array(array, "array"), **settings)


def exact_unit_row(row):
    """Return the unit row with a norm from exact rational arithmetic."""
    values = [Fraction(float(value)) for value in row]
    largest = max(abs(value) for value in values)
    scaled = [value / largest for value in values]
    norm = math.sqrt(sum(value * value for value in scaled))
    return [float(value) / norm for value in scaled]


@given(
    rows=st.integers(2, 12),
    dim=st.integers(1, 20),
    dtype=st.sampled_from(["float16", "float32", "float64", "bfloat16"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_agree_with_exact_arithmetic(rows, dim, dtype, seed):
    rng = np.random.default_rng(seed)
    array = (rng.standard_normal((rows, dim)) + 0.01).astype(dtype)
    unit = read(array)
    assert unit.values.dtype == np.float32
    assert unit.values.flags.c_contiguous
    expected = np.array([exact_unit_row(row) for row in array])
    np.testing.assert_allclose(unit.values, expected, rtol=1.2e-7, atol=1e-40)


@pytest.mark.parametrize("scale", [3e38, 1e-38, 1e-45])
def test_extreme_float32_rows(scale):
    array = (np.array([[1.0, -1.0], [1.0, 0.0]]) * scale).astype(np.float32)
    np.testing.assert_allclose(read(array).values, [[0.5**0.5, -(0.5**0.5)], [1, 0]], rtol=1.2e-7)


@pytest.mark.parametrize("scale", [1e300, 1e-160])
def test_rows_whose_norm_float64_cannot_square_are_refused(scale):
    message = refusal(lambda: read(np.array([[1.0, 1.0], [scale, 0.0]])))
    assert "rows 1 (1 in all, counted from 0): found zeros alone, NaN, infinite or missing numbers" in message


def test_fingerprints_are_as_documented_and_tensors_have_those_of_arrays():
    import xxhash

    array = np.arange(1, 7, dtype="<f4").reshape(2, 3)
    expected = xxhash.xxh3_128_hexdigest(b"float32;2x3;" + array.tobytes())
    assert read(array).fingerprint == "xxh3:" + expected
    array = np.random.default_rng(3).standard_normal((10, 6)).astype(np.float32)
    tensor = torch.from_numpy(array).requires_grad_()
    assert read(tensor).fingerprint == read(array).fingerprint
    assert read(tensor.detach().T.contiguous().T).values.tobytes() == read(array).values.tobytes()
    half = read(tensor.to(torch.bfloat16))
    assert half.fingerprint == read(array.astype(ml_dtypes.bfloat16)).fingerprint


def test_without_normalising_unit_rows_are_kept_as_they_are():
    array = np.random.default_rng(4).standard_normal((20, 8))
    array /= np.linalg.norm(array, axis=1, keepdims=True)
    np.testing.assert_array_equal(read(array, normalize=False).values, array.astype(np.float32))
    half = array.astype(np.float16)
    np.testing.assert_array_equal(read(half, normalize=False).values, half.astype(np.float32))


@pytest.mark.parametrize("row", [[0.98, 0.0], [1.02, 0.0], [1e90, 0.0], [1e-90, 0.0]])
def test_without_normalising_other_norms_are_refused(row):
    array = np.array([[1.0, 0.0], row, [0.0, 1.0]])
    message = refusal(lambda: read(array, normalize=False))
    assert "rows 1 (1 in all, counted from 0): found a norm that is not 1" in message
    assert "--no-normalize" in message


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("normalize", [True, False])
def test_non_finite_rows_are_counted_and_the_first_ten_named(bad, dtype, normalize):
    array = np.zeros((100, 3), dtype=dtype)
    array[:, 0] = 1
    array[5::8, 2] = bad
    message = refusal(lambda: read(array, block_bytes=64, normalize=normalize))
    assert "array: rows 5, 13, 21, 29, 37, 45, 53, 61, 69, 77 (12 in all, counted from 0): found " in message
    assert ("NaN, infinite or missing" if normalize else "a norm that is not 1") in message


def test_faulty_rows_of_shards_are_counted_over_all_of_them(tmp_path):
    for side in "xy":
        (tmp_path / side).mkdir()
        for part in (0, 2, 10):
            block = np.ones((4, 3), dtype=np.float32)
            block[1] = np.nan if (side, part) == ("x", 10) else 1
            np.save(tmp_path / side / f"part-{part}.npy", block)
    x, _ = open_pair(str(tmp_path / "x"), str(tmp_path / "y"))
    message = refusal(lambda: read_unit_rows(x))
    assert f"{tmp_path}/x: rows 9 (1 in all, counted from 0)" in message


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.ones((3, 3), np.int64), "int64"),
        (np.ones((3, 3), object), "object"),
        (np.ones((3, 3), [("a", "f4")]), "found ndarray of [('a', '<f4')]"),
        (np.ma.masked_array(np.ones((3, 3)), mask=np.eye(3)), "MaskedArray"),
        ([[1.0, 2.0], [3.0, 4.0]], "found list"),
        (torch.ones(3, 3, dtype=torch.int32), "int32"),
        (torch.eye(3).to_sparse(), "found Tensor of float32, expected a dense"),
        (torch.ones(3, 3, dtype=torch.float8_e4m3fn), "float8"),
    ],
    ids=str,
)
def test_arrays_that_are_no_embeddings_are_refused(array, expected):
    message = refusal(lambda: from_array(array, "x"))
    assert message.startswith("x: found ")
    assert expected in message
    assert "y: found 3 rows of 3 dimensions, expected 3 of 4" in refusal(
        lambda: open_arrays(np.ones((3, 4)), np.ones((3, 3)))
    )
