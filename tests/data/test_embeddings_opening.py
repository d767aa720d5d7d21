"""Pairs of paths: formats, shards, and paths that cannot be read."""

import os
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
from embedding_files import (
    fingerprint_of,
    fixed_lists,
    large_lists,
    lists,
    read_unit_rows,
    refusal,
    write_npy,
    write_parquet,
    write_safetensors,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from gcbs_cli.data.files import natural_key, one_line, open_file, open_unchanged, read_bytes, stamp_file
from gcbs_cli.data.opening import from_array, open_pair
from gcbs_cli.data.reading import PairStream
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.threads import in_order


def test_every_format_gives_the_same_rows_and_fingerprints(tmp_path, matrix):
    x, y = matrix, matrix[::-1]
    (tmp_path / "shards").mkdir()
    for number, rows in enumerate((slice(0, 7), slice(7, 8), slice(8, None))):
        name = f"part-{number * 5}.parquet"
        write_parquet(tmp_path / "shards" / name, x=lists(x[rows]), y=lists(y[rows]))
        write_npy(tmp_path / f"x-{number * 5}.npy", x[rows])
        write_npy(tmp_path / f"y-{number * 5}.npy", y[rows])
    (tmp_path / "shards" / ".hidden").write_text("?")
    (tmp_path / "shards" / "_SUCCESS").write_text("?")
    pairs = [
        (write_npy(tmp_path / "x.npy", x), write_npy(tmp_path / "y.npy", y)),
        (write_parquet(tmp_path / "p.parquet", x=lists(x), y=lists(y)), None),
        (write_safetensors(tmp_path / "s.safetensors", x=x, y=y), None),
        (write_npy(tmp_path / "x.npy", x), write_safetensors(tmp_path / "y.safetensors", embedding=y)),
        (str(tmp_path / "shards"), None),
        (str(tmp_path / "shards" / "part-*.parquet"), None),
        (str(tmp_path / "**" / "x-*.npy"), str(tmp_path / "y.npy")),
    ]
    for pair in pairs:
        sides = [read_unit_rows(source, block_bytes=60) for source in open_pair(*pair)]
        assert [side.fingerprint for side in sides] == [fingerprint_of(x), fingerprint_of(y)]
        expected = x.astype(np.float64) / np.sqrt((x.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(sides[0].values, expected, rtol=1e-7)
        np.testing.assert_array_equal(sides[1].values, sides[0].values[::-1])
        done = 0
        for start, *blocks in PairStream(*open_pair(*pair), block_bytes=60).blocks():
            assert start == done
            done += len(blocks[0])
            for block, side in zip(blocks, sides, strict=True):
                np.testing.assert_array_equal(block, side.values[start:done])
        assert done == len(x)


WRITERS = {
    "rows first.npy": write_npy,
    "lists.parquet": lambda path, array: write_parquet(path, embedding=lists(array)),
    "large lists.parquet": lambda path, array: write_parquet(path, embedding=large_lists(array)),
    "lists of one size.parquet": lambda path, array: write_parquet(path, embedding=fixed_lists(array)),
    "tensor.safetensors": lambda path, array: write_safetensors(path, embedding=array),
}


@pytest.mark.parametrize("name", WRITERS)
@given(
    rows=st.integers(2, 60),
    dim=st.integers(1, 40),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
    block_bytes=st.integers(1, 3000),
)
@settings(max_examples=25)
def test_every_layout_gives_the_arrays_own_rows(tmp_path, name, rows, dim, dtype, block_bytes):
    array = np.random.default_rng(rows * dim).standard_normal((rows, dim)).astype(dtype)
    path = WRITERS[name](tmp_path / name, array)
    source, _ = open_pair(path, path)
    assert (source.rows, source.dim, source.dtype, source.paths) == (rows, dim, dtype, (path,))
    most = max(1, block_bytes // dim)
    blocks = list(source.blocks(most))
    assert all(block.flags.c_contiguous and block.dtype.isnative and len(block) <= most for block in blocks)
    np.testing.assert_array_equal(np.concatenate(blocks), array)
    read, expected = read_unit_rows(source, block_bytes=block_bytes), read_unit_rows(from_array(array, "array"))
    assert read.fingerprint == expected.fingerprint
    assert read.values.tobytes() == expected.values.tobytes()


def _shards(path, array):
    path.mkdir()
    for number, rows in enumerate(np.array_split(array, 3)):
        write_npy(path / f"{number}.npy", rows)
    return str(path)


@pytest.mark.parametrize("change", ["truncated", "replaced", "edited"])
@pytest.mark.parametrize("name", [*WRITERS, "shards"])
def test_data_that_changes_while_it_is_read_is_found(tmp_path, name, change):
    array = np.random.default_rng(0).standard_normal((4000, 64)).astype(np.float32)
    writer = _shards if name == "shards" else WRITERS[name]
    path, other = writer(tmp_path / name, array), writer(tmp_path / f"other {name}", array[::-1])
    last, new = ((max(Path(each).iterdir()) if name == "shards" else Path(each)) for each in (path, other))
    for file in (last, new):
        os.utime(file, (1, 1))  # or what comes next could fall into the same tick of the clock
    stream = PairStream(*open_pair(path, path), block_bytes=100_000)
    blocks = stream.blocks()
    next(blocks)
    if change == "truncated":
        os.truncate(last, last.stat().st_size // 2)
    elif change == "replaced":
        new.replace(last)
    else:
        with last.open("r+b") as written:
            written.seek(-9000, os.SEEK_END)
            written.write(b"\0" * 8)
    if change == "replaced" and name != "shards":
        list(blocks)  # of the file that was opened, which nobody changes any more
    else:
        assert str(last) in refusal(lambda: list(blocks))


def test_an_iterator_that_is_given_up_joins_no_thread(monkeypatch):
    items = in_order(2, range(99), int)
    next(items)
    monkeypatch.setattr(threading.Thread, "join", None)  # where a search for garbage ends it, a join may hang
    items.close()


def test_a_file_that_changes_before_it_is_opened_or_after_it_was_read_is_found(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("1 2")
    with open_file(str(path)) as file:
        assert (read_bytes(file, 1, 2), read_bytes(file, 1, 0)) == (b"2", b"1")
    stamp = stamp_file(str(path))
    with pytest.raises(BadInput, match="changed during the work"), open_unchanged(stamp):
        path.write_text("1")
    with pytest.raises(BadInput, match="changed during the work"), open_unchanged(stamp):
        pass


@pytest.mark.parametrize("name", ["rows first.npy", "tensor.safetensors", "lists.parquet"])
def test_a_file_cut_at_any_length_is_refused(tmp_path, matrix, name):
    path = WRITERS[name](tmp_path / name, matrix)
    whole = Path(path).read_bytes()
    for length in [*range(16), *range(16, len(whole), 37), *range(len(whole) - 12, len(whole))]:
        Path(path).write_bytes(whole[:length])
        message = refusal(lambda: [read_unit_rows(source) for source in open_pair(path, path)])
        assert message.startswith((f"{path}: found ", f"{path}: cannot be read"))


def test_shards_are_read_in_natural_order(tmp_path):
    names = ["part-2.npy", "part-10.npy", "part-1.npy", "part-03.npy", "part-3.npy"]
    for name in names:
        write_npy(tmp_path / name, np.full((1, 2), len(name), np.float32))
    x, _ = open_pair(str(tmp_path), str(tmp_path))
    expected = ["part-1.npy", "part-2.npy", "part-03.npy", "part-3.npy", "part-10.npy"]
    assert [os.path.basename(path) for path in x.paths] == expected
    assert (x.rows, x.dim, x.name) == (5, 2, str(tmp_path))
    assert natural_key("a²9") < natural_key("a²10")


def test_empty_shards_among_others_are_fine(tmp_path, matrix):
    empty = pa.array([], type=pa.list_(pa.float32()))
    write_parquet(tmp_path / "0.parquet", x=empty, y=empty)
    write_parquet(tmp_path / "1.parquet", x=lists(matrix), y=lists(matrix))
    x, _ = open_pair(str(tmp_path), None)
    assert read_unit_rows(x).fingerprint == fingerprint_of(matrix)


def test_what_libraries_say_is_cut_to_one_line():
    assert one_line(ValueError("two\n lines")) == "two lines"
    assert one_line(ValueError()) == "ValueError"
    assert one_line(ValueError("x" * 161)) == "x" * 160 + "..."
    assert one_line(ValueError("x" * 160)) == "x" * 160


def test_tensors_by_name(tmp_path, matrix):
    path = write_safetensors(tmp_path / "a.safetensors", a=matrix, b=-matrix)
    x, y = open_pair(path, path, x_column="b", y_column="a")
    assert (x.name, y.name) == (f"{path}:b", f"{path}:a")
    assert read_unit_rows(x).fingerprint == fingerprint_of(-matrix)
    assert "found the columns a, b of float16, bfloat16, float32 or float64 rows, expected x" in refusal(
        lambda: open_pair(path, None)
    )
    only = write_safetensors(tmp_path / "only.safetensors", only=matrix.astype(ml_dtypes.bfloat16))
    assert read_unit_rows(open_pair(only, only)[0]).fingerprint == fingerprint_of(matrix.astype(ml_dtypes.bfloat16))
