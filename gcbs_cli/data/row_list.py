"""Collects the numbers of faulty rows for a message."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

NAMED_ROWS: Final = 10
"""How many of the faulty rows a message names."""


@dataclass
class RowList:
    """A count of faulty rows and the first of them."""

    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, mask: NDArray[np.bool_], start: int) -> None:
        """Add the rows of a block whose first row is `start` and where `mask` is true."""
        found = np.flatnonzero(mask)
        self.count += len(found)
        self.first += [start + int(row) for row in found[: NAMED_ROWS - len(self.first)]]

    def __str__(self) -> str:
        """Say "3 rows (numbers 5, 17, 40, from 0)", or name the first ten of them."""
        rows = ", ".join(str(row) for row in self.first)
        if self.count == 1:
            return f"1 row (number {rows}, counted from 0)"
        prefix = "numbers" if self.count <= NAMED_ROWS else f"the first {NAMED_ROWS}:"
        return f"{self.count:,} rows ({prefix} {rows}, counted from 0)"
