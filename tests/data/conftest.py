from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from embedding_files import write_npy
from numpy.typing import NDArray


@pytest.fixture
def matrix() -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((23, 5)).astype(np.float32)


@pytest.fixture
def write_pair(tmp_path: Path, matrix: NDArray[np.float32]) -> Callable[..., tuple[str, str]]:
    """Write the matrix and its reverse as a `.npy` pair."""

    def write(dtype: str = "float32") -> tuple[str, str]:
        x = write_npy(tmp_path / "x.npy", matrix.astype(dtype))
        return x, write_npy(tmp_path / "y.npy", matrix[::-1].astype(dtype))

    return write
