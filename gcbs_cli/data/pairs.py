"""The paired unit rows, exact similarities of chosen pairs, and which rows are positives of each other."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gcbs_cli.data.grid import Grid, make_grid
from gcbs_cli.system.arrays import Float32s, Floats, Int32s, Ints, ragged
from gcbs_cli.system.compiled import compiled
from gcbs_cli.system.threads import in_parts

PAIRS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class PairedRows:
    """The float32 unit rows of both sides, (N, d) each, on the host; row i of x and of y are the positive pair i."""

    x: Float32s
    y: Float32s

    @property
    def rows(self) -> int:
        """N, the number of pairs."""
        return len(self.x)

    @property
    def dim(self) -> int:
        """d, the number of coordinates."""
        return int(self.x.shape[1])

    @cached_property
    def grid(self) -> Grid:
        """Both sides as whole numbers, made when first asked for. Memory: a quarter of the rows, or half."""
        return make_grid(self.x, self.y)

    def diagonal(self) -> Floats:
        """(N,) the exact s_ii."""
        rows = np.arange(self.rows)
        return pair_values(self, rows, rows)


def pair_values(pairs: PairedRows, rows: Ints | Int32s, cols: Ints | Int32s) -> Floats:
    """(n,) s_ij of index pairs: exact float64 products, added in the order of `sum_by_halving` on every machine."""
    values = np.empty(len(rows), np.float64)
    left = np.ascontiguousarray(rows, np.int32)
    right = np.ascontiguousarray(cols, np.int32)
    in_parts(len(rows), PAIRS_AT_ONCE, lambda start, stop: _fill(pairs.x, pairs.y, left, right, values, start, stop))
    return values


@compiled
def _fill(x: Float32s, y: Float32s, rows: Int32s, cols: Int32s, values: Floats, start: int, stop: int) -> None:
    dim = x.shape[1]
    width = 1
    while width < dim:
        width *= 2
    products = np.empty(width, np.float64)
    for place in range(start, stop):
        row = rows[place]
        col = cols[place]
        for c in range(dim):
            products[c] = np.float64(x[row, c]) * np.float64(y[col, c])
        filled = dim
        half = width // 2
        while filled > 1:
            for c in range(filled - half):
                products[c] += products[half + c]
            filled = half
            half //= 2
        values[place] = products[0] + 0.0


@dataclass(frozen=True)
class Positives:
    """Rows with the same id are positives of each other; every row is its own. ids: (N,) int64."""

    ids: Ints

    @property
    def most(self) -> int:
        """The largest number of positives that a row has."""
        return int(np.unique(self.ids, return_counts=True)[1].max())

    @cached_property
    def _by_id(self) -> tuple[Ints, Ints]:
        """The rows in the order of their ids, and these ids."""
        order = np.argsort(self.ids, kind="stable")
        return order, self.ids[order]

    def of(self, rows: Ints) -> tuple[Ints, Ints]:
        """Every positive of these rows: its place in `rows`, and the row that it is. Both (P,), by place."""
        order, ids = self._by_id
        first = np.searchsorted(ids, self.ids[rows])
        places, within = ragged(np.searchsorted(ids, self.ids[rows], side="right") - first)
        return places, order[first[places] + within]

    def least_scores(self, pairs: PairedRows, rows: Ints) -> Floats:
        """(n,) the least canonical similarity of each row to one of its positives."""
        places, others = self.of(rows)
        scores = pair_values(pairs, rows[places], others)
        return np.minimum.reduceat(scores, np.searchsorted(places, np.arange(len(rows))))
