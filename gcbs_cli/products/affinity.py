"""The affinity of two pairs as the loss over 2N views sees it: the largest of x_i·y_j, x_j·y_i, x_i·x_j and y_i·y_j.

For self-supervised views (SimCLR: Chen et al., ICML 2020), where a view meets the views of its own side too. The
affinity matrix has N² entries like X Yᵀ; the entry of a pair with itself is s_ii, for a view is no negative of itself.
Its q-quantile is estimated from sampled rows and columns, and decided canonically, as that of X Yᵀ is.
"""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows, pair_values
from gcbs_cli.graph.adjacency import Adjacency, adjacency_from_pairs
from gcbs_cli.products.backend import Backend, below
from gcbs_cli.products.canonical_values import of_rank
from gcbs_cli.products.edges import Exceedances, find_exceedances
from gcbs_cli.products.entry_limit import EntryLimit
from gcbs_cli.products.quantile_sample import Sample, draw_sample
from gcbs_cli.products.tiles import BlockStore, Progress


def affinities(pair: PairedRows, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n,) canonical affinities of index pairs."""
    first, second = rows.astype(np.int32), cols.astype(np.int32)
    values = pair_values(pair, first, second)
    others = [pair_values(pair, second, first)]
    others += [pair_values(PairedRows(side, side), first, second) for side in (pair.x, pair.y)]
    return np.where(rows == cols, values, np.maximum.reduce([values, *others]))


class AffinitySample(Sample):
    """The same sample of the affinity matrix: products are the largest of the four."""

    def threshold(self, quantile: float) -> float:
        """The least sampled affinity with at least a share q of the sample at or below it."""
        flat = self.products.reshape(-1)
        rank = flat.size - ceil(round(quantile * flat.size, 6)) + 1
        guess = of_rank(flat, rank)
        above = int(np.count_nonzero(flat > np.float32(guess + 2.0 * self.error)))
        near = np.flatnonzero((flat >= below(guess, 2.0 * self.error)) & (flat <= np.float32(guess + 2.0 * self.error)))
        return float(of_rank(self._canonical(near), rank - above))

    def _above(self, threshold: float, *, ties: bool = False) -> NDArray[np.bool_]:
        flat = self.products.reshape(-1)
        found = flat > threshold
        near = np.flatnonzero(np.abs(flat.astype(np.float64) - threshold) <= 2.0 * self.error)
        settled = self._canonical(near)
        found[near] = settled >= threshold if ties else settled > threshold
        return found.reshape(self.products.shape)

    def _canonical(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        rows, cols = np.divmod(places, len(self.cols))
        return affinities(self.pair, self.rows[rows], self.cols[cols])


def draw_affinity_sample(pair: PairedRows, quantile: float, seed: int) -> AffinitySample:
    """The affinities of the rows and columns that `draw_sample` draws for X Yᵀ."""
    sample = draw_sample(pair, quantile, seed, float32=True)
    rows, cols, largest = sample.rows, sample.cols, sample.products
    own = rows[:, None] == cols
    positives = largest[own]
    for left, right in ((pair.y, pair.x), (pair.x, pair.x), (pair.y, pair.y)):
        np.maximum(largest, left[rows] @ right[cols].T, out=largest)
    largest[own] = positives
    return AffinitySample(pair, rows, cols, largest, sample.error)


def affinity_graph(
    pair: PairedRows,
    across: Exceedances,
    backend: Backend,
    *,
    tile_rows: int | None = None,
    progress: Progress | None = None,
    store: BlockStore | None = None,
    limit: EntryLimit | None = None,
) -> tuple[Adjacency, float]:
    """The graph of pairs whose affinity is above the threshold, and the share of the N² affinities at or below it.

    `across`: the entries of X Yᵀ strictly above it; X Xᵀ and Y Yᵀ are a pass each. `store`, `limit`: as in
    `find_exceedances`.
    """
    found = [across]
    for stage, side in (("withinx", pair.x), ("withiny", pair.y)):
        own = find_exceedances(
            PairedRows(side, side),
            across.threshold,
            backend,
            ties=False,
            tile_rows=tile_rows,
            progress=progress,
            store=store,
            stage=stage,
            limit=limit,
        )
        found.append(own)
    graph = adjacency_from_pairs(
        pair.rows, np.concatenate([part.rows for part in found]), np.concatenate([part.cols for part in found])
    )
    own_entries = int(np.count_nonzero(across.rows == across.cols))
    return graph, 1.0 - (2 * graph.edges + own_entries) / pair.rows**2
