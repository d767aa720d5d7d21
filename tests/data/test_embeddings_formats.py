"""Embeddings as `.npy` and `.parquet` hold them, files that are refused, and what reading costs."""

import sys

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
from embedding_files import (
    fingerprint_of,
    lists,
    read_unit_rows,
    refusal,
    write_npy,
    write_parquet,
)

from gcbs_cli.data.files import stamp_file
from gcbs_cli.data.npy import open_npy
from gcbs_cli.data.opening import open_pair


def test_bfloat16_is_read_as_ml_dtypes_saves_it(tmp_path):
    array = np.random.default_rng(0).standard_normal((6, 4)).astype(ml_dtypes.bfloat16)
    path = write_npy(tmp_path / "x.npy", array)
    assert read_unit_rows(open_pair(path, path)[0]).fingerprint == fingerprint_of(array)
    bits = write_npy(tmp_path / "bits.npy", array.view(np.uint16))
    assert "found uint16, expected float16, bfloat16" in refusal(lambda: open_pair(bits, bits))


def test_objects_are_refused_and_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return sys.exit, (42,)

    path = tmp_path / "x.npy"
    np.save(path, np.array([[Trap()], [Trap()]], dtype=object), allow_pickle=True)
    assert "object array (pickle)" in refusal(lambda: open_npy(stamp_file(str(path))))


@pytest.mark.parametrize("name", ["x", "anything"])
def test_the_column_of_a_file_for_one_side(tmp_path, matrix, name):
    decoy = {"other": lists(-matrix)} if name != "anything" else {"other": pa.array(range(len(matrix)))}
    path = write_parquet(tmp_path / "a.parquet", **decoy, **{name: lists(matrix)})
    x, _ = open_pair(path, path, y_column=name)
    assert x.name == f"{path}:{name}"
    assert read_unit_rows(x).fingerprint == fingerprint_of(matrix)


def test_columns_by_option(tmp_path, matrix):
    columns = {"a.b": lists(matrix), "q\n": lists(-matrix), "t": pa.array(["?"] * len(matrix))}
    path = write_parquet(tmp_path / "a.parquet", **columns)
    x, y = open_pair(path, None, x_column="a.b", y_column="q\n")
    assert read_unit_rows(x).fingerprint == fingerprint_of(matrix)
    assert read_unit_rows(y).fingerprint == fingerprint_of(-matrix)
    message = refusal(lambda: open_pair(path, path))
    assert "found the columns a.b, 'q\\n' of float16" in message
    assert "--x-column" in message
    message = refusal(lambda: open_pair(path, None, x_column="a.b", y_column="nope"))
    assert "expected nope" in message
    assert "name the right one with --y-column" in message
    message = refusal(lambda: open_pair(path, None))
    assert "expected x; name the right one with --x-column" in message


FAULTY = {
    "null rows": ([[1.0, 2.0], *[None] * 10], "rows 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 (10 in all, counted from 0)"),
    "first row null": ([None, [1.0, 2.0], [3.0, 4.0]], "rows 0 (1 in all, counted from 0)"),
    "null values": ([[1.0, 2.0], [None, 2.0], None, [3.0, None]], "rows 1, 2, 3 (3 in all, counted from 0)"),
    "only nulls": ([None, None], "found an array of shape (2, 0)"),
    "many": ([[1.0, 2.0]] * 9 + [None] * 30, "rows 9, 10, 11, 12, 13, 14, 15, 16, 17, 18 (30 in all, counted"),
    "ragged": ([[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]], "rows 1, 2 (2 in all, counted from 0)"),
    "first row empty": ([[], [1.0, 2.0], [3.0]], "rows 0, 2 (2 in all, counted from 0)"),
}


@pytest.mark.parametrize(("values", "expected"), FAULTY.values(), ids=FAULTY.keys())
@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float16(), 2)])
def test_nulls_and_ragged_lists_are_counted_and_named(tmp_path, values, expected, kind):
    of_one_size = pa.types.is_fixed_size_list(kind)
    if of_one_size and any(row is not None and len(row) != 2 for row in values):
        pytest.skip("lists of one size cannot be ragged")
    if of_one_size and int(pa.__version__.split(".")[0]) < 26:
        pytest.skip("pyarrow refuses to write or to read them")
    column = pa.array(values, type=kind)
    path = write_parquet(tmp_path / "a.parquet", x=column, y=column)
    message = refusal(lambda: read_unit_rows(open_pair(path, None)[0], block_bytes=40))
    assert expected in message
    assert message.startswith(f"{path}:x: ")
