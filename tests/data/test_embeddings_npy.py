"""`.npy` files as numpy.save writes them, and damaged ones of every kind."""

import os
import struct
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from embedding_files import fingerprint_of, refusal, write_npy

from gcbs_cli.data import open_pair, read_unit_rows
from gcbs_cli.data.npy import open_npy


def npy_bytes(header: str, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    text = header.encode("latin1") + b"\n"
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + data


def header(descr: str = "'<f4'", shape: str = "(3, 2)", order: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


@pytest.mark.parametrize("dtype", ["V2", "<u2", ">u2"])
def test_bfloat16_bits_are_read_when_the_user_says_so(tmp_path: Path, dtype: str) -> None:
    array = np.random.default_rng(0).standard_normal((6, 4)).astype(ml_dtypes.bfloat16)
    stored = array if dtype == "V2" else array.view(np.uint16).astype(dtype)
    path = write_npy(tmp_path / "x.npy", stored)
    assert "give --dtype bfloat16" in refusal(lambda: open_pair(path, path))
    x, _ = open_pair(path, path, dtype="bfloat16")
    assert read_unit_rows(x).fingerprint == fingerprint_of(array)


def test_versions_of_headers_and_types_that_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(npy_bytes(header(), np.ones(6, "<f4").tobytes(), (2, 0)))
    assert open_npy(str(tmp_path / "x.npy")).rows == 3
    half = write_npy(tmp_path / "half.npy", np.ones((3, 2), np.float16))
    wide = write_npy(tmp_path / "wide.npy", np.ones((3, 2), np.float32))
    assert open_pair(half, half, dtype="bfloat16")[0].dtype == "float16"
    assert open_pair(wide, wide, dtype="bfloat16")[0].dtype == "float32"


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([["a", "b"]] * 3), "found <U1"),
        (np.ones((3, 2), [("a", "f4"), ("b", "f4")]), "found [("),
        (np.ones((3, 2), "V4"), "found |V4"),
        (np.ones((3, 2, 1), np.float32), "shape (3, 2, 1)"),
        (np.ones((3, 0), np.float32), "at least one dimension"),
    ],
    ids=str,
)
def test_arrays_that_are_no_embeddings_are_refused(tmp_path: Path, array: Any, expected: str) -> None:
    path = write_npy(tmp_path / "x.npy", array)
    message = refusal(lambda: open_pair(path, path))
    assert message.startswith(f"{path}: found ")
    assert expected in message


def test_objects_are_refused_and_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return sys.exit, (42,)

    path = tmp_path / "x.npy"
    np.save(path, np.array([[Trap()], [Trap()]], dtype=object), allow_pickle=True)
    assert "object array (pickle)" in refusal(lambda: open_npy(str(path)))


@pytest.mark.parametrize(
    "content",
    [
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
        b"\x93NUMPY\x07\x00" + bytes(100),
        b"PK\x03\x04" + bytes(100),
        npy_bytes(header(), bytes(25)),
        npy_bytes(header(shape=f"({10**400}, 384)"), bytes(100)),
        npy_bytes(header(shape=f"(0x{'f' * 8000}, 2)"), bytes(24)),
        npy_bytes(header(shape="(-3, 2)"), bytes(24)),
        npy_bytes(header(shape="(" + "2, " * 3000 + ")"), bytes(24)),
        npy_bytes(header(descr="[('a', '<f4')]"), bytes(24)),
        npy_bytes(header(descr="'\\x00\\n'"), bytes(24)),
        npy_bytes("__import__('os').system('true')", bytes(24)),
        npy_bytes("(" * 5000, bytes(24)),
        npy_bytes(" " * 20000 + header(), bytes(24), (2, 0)),
        npy_bytes(header(), bytes(24), (3, 0)),
    ],
    ids=lambda content: ascii(content[:60]),
)
def test_damaged_files_are_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    assert refusal(lambda: open_npy(str(path))).startswith(f"{path}: found ")


@pytest.mark.parametrize("change", ["shrink", "grow", "touch", "replace", "remove"])
def test_a_file_that_changed_since_it_was_opened(tmp_path: Path, change: str) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((1000, 4), np.float32))
    source = open_npy(str(path))
    np.save(tmp_path / "new.npy", np.ones((1000, 4), np.float32))
    {
        "shrink": lambda: os.truncate(path, 3000),
        "grow": lambda: os.truncate(path, 20_000),
        "touch": lambda: os.utime(path, ns=(1, 1)),
        "replace": lambda: os.replace(tmp_path / "new.npy", path),
        "remove": path.unlink,
    }[change]()
    expected = "file not found" if change == "remove" else "changed while it was read"
    assert expected in refusal(lambda: next(source.blocks(1)))
