import numpy as np
import pytest


@pytest.fixture
def matrix():
    return np.random.default_rng(0).standard_normal((23, 5)).astype(np.float32)
