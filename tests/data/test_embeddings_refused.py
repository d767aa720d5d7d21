"""What holds no embeddings, and sides that do not fit each other: one line that says what was found."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedding_files import lists, refusal, write_npy, write_parquet, write_safetensors

from gcbs_cli.data.opening import open_pair

ONE = np.ones((23, 5), np.float32)
ARRAYS = {
    "strings": np.array([["a", "b"]] * 3),
    "records": np.ones((3, 2), [("a", "f4"), ("b", "f4")]),
    "voids": np.ones((3, 2), "V4"),
    "cube": ONE[:, :, None],
    "deep": ONE.reshape(-1, *[1] * 31),
    "flat": ONE[:, :0],
    "widths/1": ONE[:, :4],
    "types/1": ONE.astype(np.float16),
    "columns first": np.asfortranarray(ONE),
    "big-endian": ONE.astype(">f4"),
    "objects": ONE.astype(object),
    **dict.fromkeys(("x", "widths/0", "types/0", "kinds/0", "with text/0"), ONE),
}
HOLLOW = pa.array([[], []], pa.list_(pa.float32()))
COLUMNS = {
    "numbers": pa.array([1.0, 2.0]),
    "whole numbers": pa.array([[1, 2], [3, 4]]),
    "nested": pa.array([[[1.0]], [[2.0]]]),
    "nulls": pa.array([[None], [None]]),
    "structs": pa.array([{"a": 1.0}, {"a": 2.0}]),
    "maps": pa.array([[("a", 1.0)], [("b", 2.0)]], pa.map_(pa.string(), pa.float64())),
    "hollow": HOLLOW,
    "no rows": HOLLOW[:0],
    "kinds/z": lists(ONE),
}
REFUSED = {
    "strings.npy": "strings.npy: found <U1",
    "records.npy": "records.npy: found [(",
    "columns first.npy": "or Fortran order, expected numbers in C order; save np.ascontiguousarray(array, 'float32')",
    "big-endian.npy": "big-endian.npy: found >f4, expected float16",
    "objects.npy": "found an object array (pickle)",
    "voids.npy": "voids.npy: found |V4",
    "cube.npy": "cube.npy: found an array of shape (23, 5, 1)",
    "deep.npy": "deep.npy: found an array of shape (115, 1, 1",
    "flat.npy": "at least one dimension",
    "minus.npy": "found no valid .npy header (negative dimensions",
    "longer.npy": "found 461 bytes of data, expected 460 for the float32 array of shape (23, 5)",
    "tensor.safetensors": "found the columns none of float16, bfloat16, float32 or float64 rows, expected x; name",
    "numbers.parquet": "numbers.parquet: found the columns none of float16",
    "whole numbers.parquet": "whole numbers.parquet: found the columns none of",
    "nested.parquet": "nested.parquet: found the columns none of",
    "nulls.parquet": "nulls.parquet: found the columns none of",
    "structs.parquet": "structs.parquet: found the columns none of",
    "maps.parquet": "maps.parquet: found the columns none of",
    "hollow.parquet": "hollow.parquet:x: found an array of shape (2, 0)",
    "no rows.parquet": "found 0 rows",
    "another.parquet": "found the columns embedding of float16, bfloat16, float32 or float64 rows, expected x",
    "twice.parquet": "found the columns x, x, y of",
    "x.npy and nothing": "give Y's file as the second argument",
    "x.npy and widths/1.npy": "widths/1.npy: found 23 rows of 4 dimensions, expected 23 of 5 as in x.npy",
    "x.npy and short.npy": "short.npy: found 22 rows of 5 dimensions, expected 23 of 5 as in x.npy",
    "widths": "widths/1.npy: found 4 dimensions of float32, expected 5 of float32 as in the first shard widths/0.npy",
    "types": "types/1.npy: found 5 dimensions of float16, expected 5 of float32",
    "columns": "1.parquet:b: found 5 dimensions of float32, expected 5 of float32 as in the first shard columns/0.parq",
    "with text": "README.md: found .md, expected .npy",
    "kinds": "write all shards alike, in one format",
    "nobody": "found no files",
    "*": "another.parquet:embedding: found an array of shape (2, 0)",
    "*.none": "found no files",
    "none.npy": "file not found",
    "": "file not found",
    "nul\0.npy": "cannot be opened",
    "loop.npy": "cannot be opened",
    "pipe.npy": "a pipe or device",
    "empty.npy": "found no valid .npy header",
    "data.csv": "found .csv, expected .npy, .safetensors or .parquet, the same in",
    "data": "found '', expected .npy",
    "new\nline.csv": "'",
    "sur\udcffrogate.npy": "file not found",
}
"""What is opened as X and Y, or as both, and words of the refusal."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    for name in ("widths", "types", "kinds", "with text", "columns", "nobody"):
        (folder / name).mkdir()
    for name, array in ARRAYS.items():
        write_npy(folder / f"{name}.npy", array)
    for name, column in COLUMNS.items():
        write_parquet(folder / f"{name}.parquet", x=column, y=column)
    write_npy(folder / "short.npy", ONE[:22])
    (folder / "minus.npy").write_bytes((folder / "x.npy").read_bytes().replace(b"(23, 5), }  ", b"(-23, -5), }"))
    (folder / "longer.npy").write_bytes((folder / "x.npy").read_bytes() + b"?")
    write_parquet(folder / "another.parquet", embedding=HOLLOW)
    pq.write_table(pa.Table.from_arrays([HOLLOW] * 3, names=["x", "x", "y"]), folder / "twice.parquet")
    for number, name in enumerate("ab"):
        write_parquet(folder / "columns" / f"{number}.parquet", **{name: lists(ONE)})
    write_safetensors(folder / "tensor.safetensors", x=np.ones((3, 2), np.int64))
    os.mkfifo(folder / "pipe.npy")
    (folder / "loop.npy").symlink_to("loop.npy")
    for name in ("data.csv", "data", "new\nline.csv", "with text/README.md"):
        (folder / name).write_text("?")
    (folder / "empty.npy").touch()
    return folder


@pytest.mark.parametrize("words", REFUSED, ids=ascii)
def test_what_is_no_embeddings_is_refused_in_one_line(folder, monkeypatch, words):
    monkeypatch.chdir(folder)
    x, _, y = words.partition(" and ")
    both = None if y == "nothing" or x.endswith(".parquet") else y or x
    assert REFUSED[words] in refusal(lambda: open_pair(x, both))


def test_a_name_that_looks_like_a_pattern(tmp_path):
    named = write_npy(tmp_path / "x[1].npy", ONE)
    assert open_pair(named, named)[0].name == named
    assert "which has no columns" in refusal(lambda: open_pair(named, named, y_column="a"))
