"""What a report takes from a tile of products."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.products.edges import Exceedances
from gcbs_cli.products.hardest import QueryValues


@dataclass(frozen=True)
class TileSums:
    """Of a tile of X Yᵀ: for each temperature its log sums by row and by column, without the `masked` ones of the
    entries `found` at or above t; and what may be among the hardest of its rows and columns.
    """

    rows: list[NDArray[np.float64]]
    cols: list[NDArray[np.float64]]
    found: Exceedances
    masked: NDArray[np.bool_]
    hard_rows: QueryValues
    hard_cols: QueryValues


@dataclass(frozen=True)
class SideTileSums:
    """Of a tile of S Sᵀ: its log sums by row for each temperature, without the suspected entries `removed`; and what
    may be among the hardest of its rows.
    """

    rows: list[NDArray[np.float64]]
    hard: QueryValues
    removed: QueryValues
