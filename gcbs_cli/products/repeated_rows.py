"""Rows that occur many times: their products are made once, and what is found is said of all of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.system.arrays import ragged

WORTH = 2
"""How many times smaller the product of the distinct rows must be."""


def distinct_rows(side: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """One row of each content, and (N,) the number of each row's content, both int64."""
    whole = np.ascontiguousarray(side)
    as_bytes = whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).reshape(-1)
    _, first, numbers = np.unique(as_bytes, return_index=True, return_inverse=True)
    return first.astype(np.int64), numbers.reshape(-1).astype(np.int64)


@dataclass(frozen=True)
class Occurrences:
    """The rows of each content c: order[starts[c] : starts[c + 1]]."""

    order: NDArray[np.int32]
    starts: NDArray[np.int64]

    def count(self, contents: NDArray[np.int32]) -> NDArray[np.int64]:
        """(n,) how many rows have each content."""
        return self.starts[contents + 1] - self.starts[contents]


@dataclass(frozen=True)
class RepeatedRows:
    """`pair`: the distinct rows of both sides, which may differ in number; `x`, `y`: where each of them occurs."""

    pair: PairedRows
    x: Occurrences
    y: Occurrences

    def entries(self, rows: NDArray[np.int32], cols: NDArray[np.int32]) -> int:
        """How many entries of the whole matrix these entries of distinct rows stand for."""
        return int((self.x.count(rows) * self.y.count(cols)).sum())

    def expanded(
        self, rows: NDArray[np.int32], cols: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """Rows and columns of those entries, and for each the place of the entry that stands for it."""
        across = self.y.count(cols)
        counts = self.x.count(rows) * across
        places, within = ragged(counts)
        down, right = np.divmod(within, across[places])
        return (
            self.x.order[self.x.starts[rows][places] + down],
            self.y.order[self.y.starts[cols][places] + right],
            places,
        )


def find_repeated(pair: PairedRows) -> RepeatedRows | None:
    """The distinct rows, where they make a product much smaller than all rows do; else None."""
    sides = []
    for side in (pair.x, pair.y):
        first, numbers = distinct_rows(side)
        starts = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=len(first)))])
        sides.append((side[first], Occurrences(np.argsort(numbers, kind="stable").astype(np.int32), starts)))
    (x, x_rows), (y, y_rows) = sides
    if WORTH * len(x) * len(y) > len(pair.x) * len(pair.y):
        return None
    return RepeatedRows(PairedRows(x, y), x_rows, y_rows)
