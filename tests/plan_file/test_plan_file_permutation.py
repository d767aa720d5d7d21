import io
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import LONGEST_WAIT

from gcbs_cli.plan_file.manifest import permutation_hash
from gcbs_cli.plan_file.permutation import (
    FORMATS,
    SUFFIXES,
    check_suffix,
    read_permutation,
    verify_permutation,
    write_stdout,
)
from gcbs_cli.plan_file.plans import load_plan
from gcbs_cli.plan_file.writing import file
from gcbs_cli.system.errors import BadInput

PERM = np.array([3, 0, 2, 4, 1], dtype=np.int64)


def write_permutation(path, perm, batch_size):
    with file(path, force=True) as output:
        FORMATS[check_suffix(path)][1](output, perm, batch_size)


permutations = st.integers(1, 300).flatmap(lambda n: st.permutations(range(n)))


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=25)
@given(order=permutations, batch_size=st.integers(1, 64))
def test_what_is_written_is_read_back(tmp_path, suffix, order, batch_size):
    perm = np.array(order, dtype=np.int64)
    path = tmp_path / f"perm{suffix}"
    write_permutation(path, perm, batch_size)
    back = read_permutation(path)
    assert back.dtype == np.int64
    assert back.tolist() == order
    assert back.flags.writeable
    assert permutation_hash(back) == permutation_hash(perm)


def test_other_tools_read_the_files(tmp_path):
    for suffix in SUFFIXES:
        write_permutation(tmp_path / f"perm{suffix}", PERM, 2)
    loaded = np.load(tmp_path / "perm.npy", allow_pickle=False)
    assert (loaded.dtype, loaded.tolist()) == (np.dtype("<i8"), PERM.tolist())
    table = pq.read_table(tmp_path / "perm.parquet")
    assert table.schema == pa.schema([("index", pa.int64()), ("batch", pa.int32())])
    assert table.to_pydict() == {"index": PERM.tolist(), "batch": [0, 0, 1, 1, 2]}


def test_stdout_and_stdin(monkeypatch):
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    out.write("said before\n")
    write_stdout(PERM)
    assert out.buffer.getvalue() == b"said before\n3\n0\n2\n4\n1\n"
    out.buffer.seek(len("said before\n"))
    monkeypatch.setattr(sys, "stdin", out)
    plan = load_plan("-", 5)
    assert (plan.name, plan.perm.tolist()) == ("stdin", PERM.tolist())


LINES = {
    "x": (b"1\n2\nx\n", r"stdin: found no indices \(.*'x'\), expected one a line"),
    "beyond int64": (b"0\n9223372036854775808\n", "stdin: found no indices"),
    "zeros": (b"\x00" * 100_000, "stdin: found no indices"),
    "blanks": (b" " * 100_000, r"stdin: holds no indices; did the command that wrote it fail\?"),
    "any line ends": (b"3\r\n 0\n2\t\n\n4\r\n1", None),
}


@pytest.mark.parametrize("name", LINES)
def test_lines_on_stdin(monkeypatch, name):
    data, says = LINES[name]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    if says is None:
        assert read_permutation("-").tolist() == PERM.tolist()
        return
    with pytest.raises(BadInput, match=says) as caught:
        load_plan("-", 5)
    assert len(str(caught.value)) < 300


def test_a_pipe_that_does_not_block(monkeypatch):
    perm = np.arange(40_000)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading) as out, ThreadPoolExecutor(1) as pool:
        read = pool.submit(lambda: (time.sleep(0.05), out.read())[1])  # when the pipe is full
        with os.fdopen(writing, "w") as pipe, monkeypatch.context() as inner:
            inner.setattr(sys, "stdout", pipe)
            write_stdout(perm)
        assert read.result(LONGEST_WAIT).split() == [str(row) for row in perm]


REFUSED = {
    "int32.npy": (PERM.astype(np.int32), "found int32 of shape .*, expected a 1-D array of int64"),
    "big-endian.npy": (PERM.astype(">i8"), "found >i8 of shape .*, expected a 1-D array of int64"),
    "objects.npy": (np.array([{"a": 1}], dtype=object), "found an object array \\(pickle\\)"),
    "a matrix.npy": (PERM[None], r"found int64 of shape \(1, 5\), expected a 1-D array"),
    "rows.parquet": ({"rows": [0, 1]}, "found the columns rows of int64, expected one column index of int64"),
    "int32.parquet": ({"index": pa.array([0, 1], pa.int32())}, "found the columns index of int32, expected one column"),
    "a null.parquet": ({"index": pa.array([0, None], pa.int64())}, "found nulls in the column index"),
    "nulls.parquet": ({"index": pa.array([None, None])}, "found the columns index of null, expected"),
    "few.npy": (np.arange(3), "few.npy: 3 indices, but the data has 5 rows"),
    "outside.npy": (
        np.array([0, 5, 9, 1, 2]),
        r"5 indices, .* outside 0\.\.4: 2; missing or there twice: 2, such as \[3, 4\]",
    ),
    "below.npy": (np.array([0, -1, 2, 3, 4]), r"outside 0\.\.4: 1; missing or there twice: 1, such as \[1\]"),
    **{f"twice{suffix}": (None, r": 0; missing or there twice: 4, such as \[1, 2, 3\]") for suffix in SUFFIXES},
    "none.npy": (Path.exists, r"none\.npy: file not found"),
    "folder.npy": (Path.mkdir, "folder.npy: cannot be opened \\(Is a directory\\), expected a file"),
    "pipe.npy": (os.mkfifo, "expected a regular file"),
    "loop.npy": (lambda path: path.symlink_to(path), r"loop.npy: cannot be opened|no such file"),
}
"""A file, what it holds or how it comes about, and words of its refusal as a plan of five rows."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_permutation_of_the_rows_is_named(tmp_path, name):
    content, says = REFUSED[name]
    path = tmp_path / name
    if isinstance(content, np.ndarray):
        np.save(path, content)
    elif isinstance(content, dict):
        pq.write_table(pa.table(content), path)
    elif content is None:
        write_permutation(path, np.array([2, 2, 1, 1, 0]), 2)
    else:
        content(path)
    with pytest.raises(BadInput, match=says) as caught:
        load_plan(path, 5)
    assert "\n" not in str(caught.value)


def test_an_order_of_two_dimensions_is_no_permutation():
    with pytest.raises(BadInput, match="expected a 1-D array of integers, got shape"):
        verify_permutation(np.array([[0, 1]]), 2, "plan")


@pytest.mark.parametrize(
    ("name", "found"), [("perm.csv", r"the suffix \.csv"), ("perm", "the suffix ''"), (".npy", "the suffix ''")]
)
def test_an_unknown_suffix_lists_those_that_exist(tmp_path, name, found):
    for attempt in (check_suffix, read_permutation, lambda path: write_permutation(path, PERM, 2)):
        with pytest.raises(BadInput, match=rf"found {found}.* expected \.npy, \.parquet, \.txt, or - for a pipe"):
            attempt(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_the_hash_is_of_the_order_alone():
    assert permutation_hash(PERM) == permutation_hash(PERM.astype(">i8")) == permutation_hash(PERM.astype(np.int32))
    assert permutation_hash(PERM) != permutation_hash(PERM[::-1])
    # fixed for all time: the manifests of older plans hold it
    assert permutation_hash(np.arange(4)) == "xxh3:e9bf57da474242be3e1520d65af7f34a"
