"""Tiles of X Yᵀ in float64, for data whose similarities lie closer together than float32's rounding."""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.canonical_values import canonical_of_many, double_error
from gcbs_cli.products.spread_rows import spread_rows
from gcbs_cli.products.tiles import Tile

TRIAL_ROWS = 512
LARGE_SHARE = 1 / 64
"""Of undecided entries: deciding so many one by one costs more than all of them in float64."""
STRIP_ROWS = 128
"""A strip of float64 products stays in a core's cache."""


def mostly_near(pair: PairedRows, threshold: float, error: float) -> bool:
    """Whether a large share of the entries lies within `error` of the threshold, by a trial on rows from everywhere."""
    left, right = spread_rows(pair.x, TRIAL_ROWS), spread_rows(pair.y, TRIAL_ROWS)
    near = np.abs((left @ right.T).astype(np.float64) - threshold) <= error
    return float(near.mean()) > LARGE_SHARE


class DoubleSearch:
    """Finds the entries of tiles from float64 products; canonical values decide what these leave open."""

    def __init__(self, pair: PairedRows, threshold: float) -> None:
        self._pair, self._threshold = pair, threshold
        self._error = double_error(pair.dim)

    def reaching(self, tile: Tile) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Rows, columns and values of the entries that may reach the threshold; comparing the values decides."""
        right = self._pair.y[tile.cols].astype(np.float64).T
        width = right.shape[1]
        rows, cols, values = [], [], []
        scratch = np.empty((STRIP_ROWS, width))
        for start in range(tile.rows.start, tile.rows.stop, STRIP_ROWS):
            left = self._pair.x[start : min(start + STRIP_ROWS, tile.rows.stop)].astype(np.float64)
            product = np.matmul(left, right, out=scratch[: len(left)]).reshape(-1)
            found = np.flatnonzero(product >= self._threshold - self._error)
            row, col = np.divmod(found, width)
            rows.append(row + start)
            cols.append(col + tile.cols.start)
            values.append(product[found])
        return self._decided(np.concatenate(rows), np.concatenate(cols), np.concatenate(values))

    def _decided(
        self, rows: NDArray[np.int64], cols: NDArray[np.int64], values: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        near = np.flatnonzero(values <= self._threshold + self._error)
        values[near] = canonical_of_many(self._pair, rows[near], cols[near])
        return rows, cols, values
