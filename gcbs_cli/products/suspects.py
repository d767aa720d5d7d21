"""Suspected false negatives: pairs of rows so alike that calling one a negative of the other is probably wrong."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import ior
from typing import Any

import numpy as np

from gcbs_cli.system.arrays import Array, Float32s, Floats, Int32s, Ints, group_numbers

ROUNDING = 1e-5
"""Two float32 products of equal rows differ by less: with limits lower by this, equal rows are suspected alike."""

Places = slice | Ints
"""Which rows: (n,), or (..., n) for several tables at once."""


@dataclass(frozen=True, eq=False)
class Suspicion:
    """The rule: rows i and j are suspected where s_ij or s_ji is at least `limits[i]` or `limits[j]`.

    limits: (N,) max(t, margin · s_ii), lower by the rounding; groups: (N,) numbers, rows with the same one are
    suspected too; positives: (N,) numbers, rows with the same one are right answers for each other and never suspected.
    """

    limits: Float32s
    groups: Int32s | None = None
    positives: Int32s | None = None

    @classmethod
    def of(cls, diagonal: Floats, threshold: float, margin: float, groups: Ints | None = None) -> "Suspicion":
        """The rule for rows with these s_ii (N,); groups: (N,) ids, those below 0 are no group."""
        limits = np.maximum(threshold, margin * diagonal) - ROUNDING
        numbers = None if groups is None else group_numbers(groups)
        return cls(limits.astype(np.float32), numbers)

    def mask(self, there: Any, back: Any, rows: Places, cols: Places, put: Callable[[Array], Any] = np.asarray) -> Any:
        """(..., r, c) the suspected entries of tables, a row's own positive may be one.

        there, back: (..., r, c) s_ij and s_ji of the rows (..., r) and the columns (..., c), as numpy arrays or torch
        tensors; put: brings an array to where the tables are.
        """

        def ends(values: Array) -> tuple[Any, Any]:
            return put(values[rows])[..., :, None], put(values[cols])[..., None, :]

        mask = reduce(ior, (table >= limits for table in (there, back) for limits in ends(self.limits)))
        if self.groups is not None:
            row_groups, col_groups = ends(self.groups)
            mask |= row_groups == col_groups
        if self.positives is not None:
            row_positives, col_positives = ends(self.positives)
            mask &= row_positives != col_positives
        return mask
