"""`.safetensors` files as the library writes them, and files that it refuses."""

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from embedding_files import fingerprint_of, refusal, write_safetensors
from numpy.typing import NDArray

from gcbs_cli.data import open_pair, read_unit_rows


def test_tensors_by_name(tmp_path: Path, matrix: NDArray[np.float32]) -> None:
    path = write_safetensors(tmp_path / "a.safetensors", a=matrix, b=-matrix)
    x, y = open_pair(path, path, x_column="b", y_column="a")
    assert (x.name, y.name) == (f"{path}:b", f"{path}:a")
    assert read_unit_rows(x).fingerprint == fingerprint_of(-matrix)
    assert "found the tensors a, b, expected a tensor x" in refusal(lambda: open_pair(path, None))
    only = write_safetensors(tmp_path / "only.safetensors", only=matrix.astype(ml_dtypes.bfloat16))
    assert read_unit_rows(open_pair(only, only)[0]).fingerprint == fingerprint_of(matrix.astype(ml_dtypes.bfloat16))


def test_tensors_of_integers_are_refused(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "a.safetensors", x=np.ones((3, 2), np.int64))
    assert "found a tensor of I64" in refusal(lambda: open_pair(path, path))


def content(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(shape: Any = (3, 2), offsets: Any = (0, 24), dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


DAMAGED = {
    "length beyond the file": struct.pack("<Q", 10**12) + b"{}",
    "deep": content(b'{"x":' * 100_000, b""),
    "a list": content([1], b""),
    "shape that needs more": content({"x": entry((10**12, 384))}, bytes(24)),
    "the same bytes twice": content({"x": entry(), "y": entry()}, bytes(24)),
    "trailing bytes": content({"x": entry()}, bytes(25)),
    "huge offsets": content({"x": entry(offsets=(0, 10**30))}, bytes(24)),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_files_are_refused_in_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(data)
    assert refusal(lambda: open_pair(str(path), str(path))).startswith(f"{path}: found ")
