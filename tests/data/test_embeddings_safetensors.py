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

torch = pytest.importorskip("torch")

from safetensors.torch import save_file

from gcbs_cli.data import open_pair, read_unit_rows


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_every_type_gives_the_tensors_own_rows(tmp_path: Path, dtype: torch.dtype) -> None:
    x, y = torch.randn(2, 33, 7, generator=torch.Generator().manual_seed(0)).to(dtype)
    path = str(tmp_path / "a.safetensors")
    save_file({"y": y.contiguous(), "x": x.contiguous(), "ids": torch.arange(33)}, path, metadata={"a": "b"})
    for source, tensor in zip(open_pair(path, None), (x, y), strict=True):
        assert read_unit_rows(source, block_bytes=100).fingerprint == fingerprint_of(tensor)
        assert source.dtype == str(dtype).removeprefix("torch.")


def test_tensors_by_name(tmp_path: Path, matrix: NDArray[np.float32]) -> None:
    path = write_safetensors(tmp_path / "a.safetensors", a=matrix, b=-matrix)
    x, y = open_pair(path, path, x_column="b", y_column="a")
    assert (x.name, y.name) == (f"{path}:b", f"{path}:a")
    assert read_unit_rows(x).fingerprint == fingerprint_of(-matrix)
    assert "found the tensors a, b, expected a tensor x" in refusal(lambda: open_pair(path, None))
    only = write_safetensors(tmp_path / "only.safetensors", only=matrix.astype(ml_dtypes.bfloat16))
    assert read_unit_rows(open_pair(only, only)[0]).fingerprint == fingerprint_of(matrix.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (np.ones((3, 2), np.int64), "found a tensor of I64"),
        (np.ones(6, np.float32), "shape (6,), expected 2-D"),
        (np.ones((1, 2), np.float32), "found 1 row"),
        (np.ones((0, 2), np.float32), "found 0 rows"),
    ],
    ids=str,
)
def test_tensors_that_are_no_embeddings_are_refused(tmp_path: Path, tensor: Any, expected: str) -> None:
    path = write_safetensors(tmp_path / "a.safetensors", x=tensor, y=tensor)
    assert expected in refusal(lambda: open_pair(path, None))


def content(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(shape: Any = (3, 2), offsets: Any = (0, 24), dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


DAMAGED = {
    "short": b"\x01\x00",
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
