import numpy as np
import pytest
from numpy.typing import NDArray


@pytest.fixture
def matrix() -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((23, 5)).astype(np.float32)
