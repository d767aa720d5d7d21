"""Rows from everywhere, for trials."""

import numpy as np
from numpy.typing import NDArray


def spread_places(rows: int, count: int) -> NDArray[np.int64]:
    """Up to `count` places of 0 to rows − 1, evenly apart."""
    return np.linspace(0, rows - 1, min(count, rows)).astype(np.int64)


def spread_rows(rows: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Up to `count` of the rows, evenly apart."""
    return rows[spread_places(len(rows), count)]
