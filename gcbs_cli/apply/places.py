"""Where each row of the data goes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Places:
    """A plan both ways: the row at a place, and the place of a row."""

    def __init__(self, perm: NDArray[np.int64]) -> None:
        self._perm = perm
        small = np.int32 if len(perm) <= np.iinfo(np.int32).max else np.int64
        self._place: NDArray[Any] = np.empty(len(perm), small)
        self._place[perm] = np.arange(len(perm), dtype=small)

    @property
    def rows(self) -> int:
        """N."""
        return len(self._perm)

    def of_rows(self, start: int, stop: int) -> NDArray[Any]:
        """The places of consecutive rows of the data."""
        return self._place[start:stop]

    def rows_at(self, start: int, stop: int) -> NDArray[np.int64]:
        """The rows at consecutive places."""
        return self._perm[start:stop]
