"""One pass over X Yᵀ to the entries at or above a threshold."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.backend import Array, Backend, Entries, below
from gcbs_cli.products.canonical_values import settle
from gcbs_cli.products.double_search import DoubleSearch, mostly_near
from gcbs_cli.products.entry_limit import EntryLimit
from gcbs_cli.products.repeated_rows import RepeatedRows, find_repeated
from gcbs_cli.products.tiles import Progress, Tile, run_tiles, tiles_for


@dataclass(frozen=True)
class Exceedances:
    """The entries s_ij >= threshold, the diagonal included: row, column (int32) and value (float64).

    A value is canonical where it lies near the threshold, and a product of the device or of float64 elsewhere.
    """

    threshold: float
    rows: NDArray[np.int32]
    cols: NDArray[np.int32]
    values: NDArray[np.float64]

    def above(self) -> "Exceedances":
        """Only the entries strictly above the threshold: those that make an edge."""
        keep = self.values > self.threshold
        return Exceedances(self.threshold, self.rows[keep], self.cols[keep], self.values[keep])


class EdgeSearch:
    """Finds the entries of one tile after the other, those near the threshold decided canonically.

    `ties`: whether entries equal to the threshold are kept; they make no edge. Where the products of the device leave
    a large share of the entries undecided (a cluster tighter than their rounding), tiles are made in float64 instead.
    `limit`: a float32 number that the device's value of every such entry exceeds.
    """

    def __init__(self, pair: PairedRows, threshold: float, backend: Backend, *, ties: bool = True) -> None:
        self.pair, self._threshold, self._backend, self._ties = pair, threshold, backend, ties
        self._error = backend.error(pair.dim)
        self.limit = below(threshold, self._error)
        self.in_double = mostly_near(pair, threshold, self._error)
        self._double = DoubleSearch(pair, threshold)

    def of_tiles(self) -> Callable[[Tile], Exceedances]:
        """A function for the entries of a tile, whose products need not be kept."""
        if self.in_double:
            return self._in_double
        find = self._backend.finder(self.pair.x, self.pair.y, self._threshold)
        return lambda tile: self._settled(find(tile), tile)

    def of_product(self, product: Array, tile: Tile) -> Exceedances:
        """The entries of a tile whose products the device has made."""
        if self.in_double:
            return self._in_double(tile)
        return self._settled(self._backend.above(product, self.limit), tile)

    def of_entries(self, listed: Entries, tile: Tile) -> Exceedances:
        """The entries of a tile from a list that has all of them, and perhaps others, with the device's values."""
        if self.in_double:
            return self._in_double(tile)
        near = listed.values > np.float32(self.limit)
        return self._settled(listed.chosen(near), tile)

    def _in_double(self, tile: Tile) -> Exceedances:
        return self._reaching(*self._double.reaching(tile))

    def _settled(self, found: Entries, tile: Tile) -> Exceedances:
        rows, cols = found.rows + tile.rows.start, found.cols + tile.cols.start
        return self._reaching(rows, cols, settle(self.pair, rows, cols, found.values, self._threshold, self._error))

    def _reaching(self, rows: NDArray[np.int64], cols: NDArray[np.int64], values: NDArray[np.float64]) -> Exceedances:
        keep = values >= self._threshold if self._ties else values > self._threshold
        return Exceedances(self._threshold, rows[keep].astype(np.int32), cols[keep].astype(np.int32), values[keep])


def join(parts: list[Exceedances], threshold: float) -> Exceedances:
    """All parts one after the other."""
    return Exceedances(
        threshold,
        np.concatenate([part.rows for part in parts] or [np.empty(0, np.int32)]),
        np.concatenate([part.cols for part in parts] or [np.empty(0, np.int32)]),
        np.concatenate([part.values for part in parts] or [np.empty(0, np.float64)]),
    )


def find_exceedances(
    pair: PairedRows,
    threshold: float,
    backend: Backend,
    *,
    ties: bool = True,
    tile_rows: int | None = None,
    progress: Progress | None = None,
    limit: EntryLimit | None = None,
) -> Exceedances:
    """Every entry s_ij >= threshold of X Yᵀ, the same whatever the device and the size of the tiles.

    `ties`: whether entries equal to the threshold are wanted; `limit`: how many entries there is room for. Memory:
    16 bytes an entry found, and the scratch of the tiles.
    """
    search = EdgeSearch(pair, threshold, backend, ties=ties)
    repeated = repeated_rows_of(search)
    if repeated is not None:
        search = EdgeSearch(repeated.pair, threshold, backend, ties=ties)
    tiles = tiles_for(backend, len(search.pair.x), len(search.pair.y), tile_rows)
    parts: list[Exceedances] = []
    for _, found in run_tiles(backend, tiles, search.of_tiles(), progress):
        parts.append(found)
        if limit is not None:
            limit.add(len(found.rows) if repeated is None else repeated.entries(found.rows, found.cols))
    whole = join(parts, threshold)
    if repeated is None:
        return whole
    rows, cols, places = repeated.expanded(whole.rows, whole.cols)
    return Exceedances(threshold, rows, cols, whole.values[places])


def repeated_rows_of(search: EdgeSearch) -> RepeatedRows | None:
    """The distinct rows, where they are worth looking for: equal rows make a cluster that float32 does not part."""
    return find_repeated(search.pair) if search.in_double else None
