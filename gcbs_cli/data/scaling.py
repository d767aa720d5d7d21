"""Scale the coordinates of a side over all its rows, then bring its rows back to unit length.

The other normalisations of Chernyavskiy et al. (NAACL 2022): by coordinate, each coordinate divided by its norm over
the rows; min–max, each coordinate mapped to [0, 1]. There they stand in for the rows' normalisation within a batch;
here the scales are those of all rows, so that a similarity does not depend on the batch, and rows are unit again
afterwards, so that similarities stay cosines and temperatures keep their meaning.
"""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.normalise import unit_rows_into
from gcbs_cli.system.errors import BadInput

NORMALIZATIONS = ("row", "coordinate", "minmax")
ROWS_AT_ONCE = 1 << 14


def scale_side(side: NDArray[np.float32], kind: str, name: str) -> NDArray[np.float32]:
    """(N, d) unit rows after scaling; the rows themselves for `row`. A coordinate that never varies becomes 0 (minmax).

    Raises BadInput for an unknown kind, and where scaling leaves a row of zeros.
    """
    if kind not in NORMALIZATIONS:
        raise BadInput(f"--normalization {kind}: expected {', '.join(NORMALIZATIONS)}")
    if kind == "row":
        return side
    offset, scale = _by_norm(side) if kind == "coordinate" else _by_range(side)
    scaled = np.empty_like(side)
    for start in range(0, len(side), ROWS_AT_ONCE):
        part = (side[start : start + ROWS_AT_ONCE].astype(np.float64) - offset) * scale
        zero = unit_rows_into(part, "float64", scaled[start : start + ROWS_AT_ONCE], normalize=True).zero
        if zero.any():
            raise BadInput(
                f"--normalization {kind}: row {start + int(np.flatnonzero(zero)[0])} of {name} becomes zeros; "
                "use --normalization row"
            )
    return scaled


def _by_norm(side: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    squares = np.zeros(side.shape[1])
    for start in range(0, len(side), ROWS_AT_ONCE):
        squares += np.square(side[start : start + ROWS_AT_ONCE].astype(np.float64)).sum(axis=0)
    return np.zeros(side.shape[1]), _inverse(np.sqrt(squares))


def _by_range(side: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low, high = side.min(axis=0).astype(np.float64), side.max(axis=0).astype(np.float64)
    return low, _inverse(high - low)


def _inverse(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / values, and 0 for 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
