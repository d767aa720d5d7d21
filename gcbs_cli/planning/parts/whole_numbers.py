"""Products of unit rows in whole numbers: the same on every machine, in any order of summation.

Unit rows times 3,500, rounded, have products below 2²⁴ (Cauchy and Schwarz bound every partial sum by the product of
the norms), which float32 holds exactly. So a matrix product by any library gives the same bits, and the part of a row
depends on the row and the centres alone. What rounding changes, 1e-4 of a similarity, is nothing to a coarse partition.
"""

import numpy as np
from numpy.typing import NDArray

SCALE = 3500
"""(3500 + √d / 2)² is below 2²⁴ for up to 1.4 million coordinates."""

UNIT = SCALE * SCALE
"""What a similarity of 1 is."""


def whole(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Unit rows (n, d) as whole numbers held in float32."""
    return np.rint(rows * np.float32(SCALE))


def products(rows: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.int32]:
    """(n, P) exact products of whole rows and whole centres; UNIT is a similarity of 1."""
    return (rows @ centres.T).astype(np.int32)
