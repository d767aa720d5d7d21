"""`.npy` files as numpy.save writes them, and damaged ones of every kind."""

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from embedding_files import fingerprint_of, refusal, write_npy

from gcbs_cli.data import open_pair, read_unit_rows
from gcbs_cli.data.npy import open_npy


@pytest.mark.parametrize("dtype", ["V2", "<u2", ">u2"])
def test_bfloat16_bits_are_read_when_the_user_says_so(tmp_path: Path, dtype: str) -> None:
    array = np.random.default_rng(0).standard_normal((6, 4)).astype(ml_dtypes.bfloat16)
    stored = array if dtype == "V2" else array.view(np.uint16).astype(dtype)
    path = write_npy(tmp_path / "x.npy", stored)
    assert "give --dtype bfloat16" in refusal(lambda: open_pair(path, path))
    x, _ = open_pair(path, path, dtype="bfloat16")
    assert read_unit_rows(x).fingerprint == fingerprint_of(array)


def test_objects_are_refused_and_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return sys.exit, (42,)

    path = tmp_path / "x.npy"
    np.save(path, np.array([[Trap()], [Trap()]], dtype=object), allow_pickle=True)
    assert "object array (pickle)" in refusal(lambda: open_npy(str(path)))


def test_versions_of_headers_and_types_that_are_read(tmp_path: Path) -> None:
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, np.ones((3, 2), np.float32), (2, 0))
    assert open_npy(str(tmp_path / "x.npy")).rows == 3
    for kind in ("float16", "float32"):
        path = write_npy(tmp_path / f"{kind}.npy", np.ones((3, 2), kind))
        assert open_pair(path, path, dtype="bfloat16")[0].dtype == kind
