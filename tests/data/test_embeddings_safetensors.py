"""`.safetensors` files as the library writes them; what the library refuses is refused here."""

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from embedding_files import fingerprint_of, refusal, write_safetensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

torch = pytest.importorskip("torch")

from safetensors.torch import save_file

from gcbs_cli.data import open_pair, read_unit_rows
from gcbs_cli.data.columns import ColumnChoice
from gcbs_cli.data.safetensors import open_safetensors
from gcbs_cli.system.errors import BadInput

shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def content(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(shape: Any = (3, 2), offsets: Any = (0, 24), dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_every_type_gives_the_tensors_own_rows(tmp_path: Path, dtype: torch.dtype) -> None:
    x, y = torch.randn(2, 33, 7, generator=torch.Generator().manual_seed(0)).to(dtype)
    path = str(tmp_path / "a.safetensors")
    save_file({"y": y.contiguous(), "x": x.contiguous(), "ids": torch.arange(33)}, path, metadata={"a": "b"})
    for source, tensor in zip(open_pair(path, None), (x, y), strict=True):
        read = read_unit_rows(source, block_bytes=100)
        assert read.fingerprint == fingerprint_of(tensor)
        assert source.dtype == str(dtype).removeprefix("torch.")


def test_bfloat16_agrees_with_ml_dtypes(tmp_path: Path) -> None:
    array = np.random.default_rng(0).standard_normal((9, 4)).astype(ml_dtypes.bfloat16)
    path = write_safetensors(tmp_path / "a.safetensors", only=array)
    assert read_unit_rows(open_pair(path, path)[0]).fingerprint == fingerprint_of(array)


def test_tensors_by_name(tmp_path: Path, matrix: NDArray[np.float32]) -> None:
    path = write_safetensors(tmp_path / "a.safetensors", a=matrix, b=-matrix)
    x, y = open_pair(path, path, x_column="b", y_column="a")
    assert (x.name, y.name) == (f"{path}:b", f"{path}:a")
    assert read_unit_rows(x).fingerprint == fingerprint_of(-matrix)
    assert "found the tensors a, b, expected a tensor x" in refusal(lambda: open_pair(path, None))


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (np.ones((3, 2), np.int64), "found a tensor of I64"),
        (np.ones(6, np.float32), "shape (6,), expected 2-D"),
        (np.ones((3, 2, 2), np.float32), "shape (3, 2, 2)"),
        (np.ones((1, 2), np.float32), "found 1 row"),
        (np.ones((0, 2), np.float32), "found 0 rows"),
    ],
    ids=str,
)
def test_tensors_that_are_no_embeddings_are_refused(tmp_path: Path, tensor: Any, expected: str) -> None:
    path = write_safetensors(tmp_path / "a.safetensors", x=tensor, y=tensor)
    assert expected in refusal(lambda: open_pair(path, None))


def library_accepts(path: Path) -> bool:
    try:
        with safe_open(path, framework="numpy") as file:
            file.keys()
    except (SafetensorError, OSError, ValueError):
        return False
    return True


DAMAGED = {
    "short": b"\x01\x00",
    "length beyond the file": struct.pack("<Q", 10**12) + b"{}",
    "largest length": b"\xff" * 8 + b"{}",
    "not JSON": content(b"{'x': 1}", b""),
    "not UTF-8": content(b'{"\xff": 1}', b""),
    "deep": content(b'{"x":' * 100_000, b""),
    "a list": content([1], b""),
    "an entry that is a number": content({"x": 1}, b""),
    "no shape": content({"x": {"dtype": "F32", "data_offsets": [0, 24]}}, bytes(24)),
    "negative shape": content({"x": entry((-3, -2))}, bytes(24)),
    "shape of floats": content({"x": entry((3.0, 2))}, bytes(24)),
    "negative offsets": content({"x": entry(offsets=(-24, 0))}, bytes(24)),
    "backward offsets": content({"x": entry(offsets=(24, 0))}, bytes(24)),
    "three offsets": content({"x": entry(offsets=(0, 24, 24))}, bytes(24)),
    "shape that needs more": content({"x": entry((10**12, 384))}, bytes(24)),
    "overlap": content({"x": entry(), "y": entry(offsets=(12, 36))}, bytes(36)),
    "the same bytes twice": content({"x": entry(), "y": entry()}, bytes(24)),
    "gap": content({"x": entry(offsets=(4, 28))}, bytes(28)),
    "truncated": content({"x": entry()}, bytes(23)),
    "trailing bytes": content({"x": entry()}, bytes(25)),
    "huge offsets": content({"x": entry(offsets=(0, 10**30))}, bytes(24)),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
def test_what_the_library_refuses_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(data)
    assert not library_accepts(path)
    assert refusal(lambda: open_safetensors(str(path), ColumnChoice("x"))).startswith(f"{path}: found ")


def test_truncated_at_every_length(tmp_path: Path) -> None:
    whole = content({"x": entry()}, bytes(24))
    path = tmp_path / "a.safetensors"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        refusal(lambda: open_safetensors(str(path), ColumnChoice("x")))


@shared_folder
@given(data=st.binary(max_size=200), valid_length=st.booleans())
def test_random_bytes(tmp_path: Path, data: bytes, valid_length: bool) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content(data, b"") if valid_length else data)
    refusal(lambda: open_safetensors(str(path), ColumnChoice("x")))


@shared_folder
@given(position=st.integers(0, 80), byte=st.integers(0, 255))
def test_a_changed_byte_is_refused_whenever_the_library_refuses_it(tmp_path: Path, position: int, byte: int) -> None:
    data = bytearray(content({"x": entry()}, np.ones(6, "<f4").tobytes()))
    data[position] = byte
    path = tmp_path / "a.safetensors"
    path.write_bytes(data)
    try:
        source = open_safetensors(str(path), ColumnChoice("x"))
    except BadInput:
        pass  # the other tests look at the messages
    else:
        assert library_accepts(path)
        assert sum(map(len, source.blocks(10))) == source.rows
