"""The hardest negatives of each row with their indices: the same lists on every device and with every tile size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows, pair_values
from gcbs_cli.products.backend import Backend, Entries, LimitedRows, Lister, float32_error
from gcbs_cli.products.double_search import mostly_near
from gcbs_cli.products.edges import EdgeSearch, Exceedances, find_exceedances, join
from gcbs_cli.products.entry_limit import EntryLimit
from gcbs_cli.products.hardest import likely_thresholds
from gcbs_cli.products.hardest_keys import HardestKeys, as_lines
from gcbs_cli.products.tiles import Progress, Tile, run_tiles, tiles_for

ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class TopLists:
    """The hardest of each row: indices (N, m) int32, and their canonical similarities (N, m) float64, falling.

    Equal similarities are in the order of their indices, and the lowest indices are taken.
    """

    indices: NDArray[np.int32]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Candidates:
    """What a plan may take from the pass: entries at or above t, and the hardest of each row of x and of y."""

    exceedances: Exceedances | None
    x: TopLists | None
    y: TopLists | None


def find_candidates(
    pair: PairedRows,
    threshold: float | None,
    top: int,
    backend: Backend,
    *,
    seed: int = 0,
    ties: bool = True,
    tile_rows: int | None = None,
    progress: Progress | None = None,
    limit: EntryLimit | None = None,
) -> Candidates:
    """One pass over X Yᵀ to the entries at or above a threshold and the `top` hardest of each row and column.

    A threshold of None or a `top` of 0 leaves that part out. `ties`: whether entries equal to the threshold are wanted;
    `limit`: how many entries there is room for.
    Memory: 16 bytes an entry above the threshold, 40 bytes a candidate (`likely_candidates` a row and direction), and
    the tiles' scratch.
    """
    top = min(top, pair.rows - 1)
    if top == 0:
        # Nothing else needs the products, so the backend may find the entries without keeping any.
        above = None
        if threshold is not None:
            above = find_exceedances(
                pair, threshold, backend, ties=ties, tile_rows=tile_rows, progress=progress, limit=limit
            )
        return Candidates(above, None, None)
    collectors = [TopCollector(pair, side, top, backend, seed) for side in range(2)]
    search = None if threshold is None else EdgeSearch(pair, threshold, backend, ties=ties)
    parts: list[Exceedances] = []

    work = _tile_work(pair, search, collectors, backend)
    for _, (found, hard) in run_tiles(backend, tiles_for(backend, pair.rows, pair.rows, tile_rows), work, progress):
        if found is not None:
            parts.append(found)
        for collector, entries in zip(collectors, hard, strict=True):
            collector.parts.append(entries)
        if limit is not None:
            limit.add(sum(len(part.values) for part in (found, *hard) if part is not None))
    own, other = (collector.finish() for collector in collectors)
    return Candidates(None if threshold is None else join(parts, threshold), own, other)


@dataclass(frozen=True)
class _Found:
    queries: NDArray[np.int32]
    keys: NDArray[np.int32]
    values: NDArray[np.float32]


def _tile_work(
    pair: PairedRows, search: EdgeSearch | None, collectors: Sequence["TopCollector"], backend: Backend
) -> Callable[[Tile], tuple[Exceedances | None, list[_Found]]]:
    """What is done with each tile: entries listed without products where the backend does that, else its products."""
    rows, cols = (collector.limits for collector in collectors)
    if search is not None and not search.in_double:
        rows = np.minimum(rows, np.float32(search.limit))
    listed = backend.lister(LimitedRows(pair.x, pair.y, rows, cols))
    if listed is not None:
        return partial(_from_lists, listed, search, collectors)
    x, y = backend.load(pair.x), backend.load(pair.y)

    def from_products(tile: Tile) -> tuple[Exceedances | None, list[_Found]]:
        product = backend.product(x, y, tile.rows, tile.cols)
        found = None if search is None else search.of_product(product, tile)
        return found, [collector.of_tile(product, tile) for collector in collectors]

    return from_products


def _from_lists(
    listed: Lister, search: EdgeSearch | None, collectors: Sequence["TopCollector"], tile: Tile
) -> tuple[Exceedances | None, list[_Found]]:
    by_side = listed(tile)
    found = None if search is None else search.of_entries(by_side[0], tile)
    return found, [collector.of_entries(entries, tile) for collector, entries in zip(collectors, by_side, strict=True)]


class TopCollector:
    """Gathers candidates of one side (0: columns for each row, 1: rows for each column) and picks the hardest."""

    def __init__(self, pair: PairedRows, side: int, top: int, backend: Backend, seed: int) -> None:
        self.pair, self.side, self.top = pair, side, top
        self.chooser = HardestKeys(pair, side, top, max(backend.error(pair.dim), float32_error(pair.dim)))
        self.backend = backend
        self.limits = self._limits(seed + side)
        self.parts: list[_Found] = []

    def _limits(self, seed: int) -> NDArray[np.float32]:
        """(N,) what the candidates of each query exceed; infinity in clusters tighter than the products' rounding."""
        queries, keys, error = self.chooser.queries, self.chooser.keys, self.chooser.error
        limits = likely_thresholds(queries, keys, self.top, self.backend, seed)
        if not mostly_near(self.pair, float(np.median(limits)), error):
            return limits
        return likely_thresholds(queries, keys, self.top, self.backend, seed, reach=2.0 * error)

    def of_tile(self, product: object, tile: Tile) -> _Found:
        """The entries of a tile that may be among the hardest of their query, own positives left out."""
        limits = self.limits[tile.rows][:, None] if self.side == 0 else self.limits[tile.cols][None, :]
        return self._others(self.backend.above(product, limits), tile)

    def of_entries(self, listed: Entries, tile: Tile) -> _Found:
        """The same from a list that has all of them, and perhaps others."""
        limits = self.limits[tile.rows][listed.rows] if self.side == 0 else self.limits[tile.cols][listed.cols]
        return self._others(listed.chosen(listed.values > limits), tile)

    def _others(self, found: Entries, tile: Tile) -> _Found:
        rows, cols = found.rows + tile.rows.start, found.cols + tile.cols.start
        apart = rows != cols
        ends = rows[apart].astype(np.int32), cols[apart].astype(np.int32)
        return _Found(ends[self.side], ends[1 - self.side], found.values[apart])

    def finish(self) -> TopLists:
        """The lists. Queries with too few candidates, or with one too near the limit, are done in full."""
        from scipy.sparse import csr_array

        rows = self.pair.rows
        queries = np.concatenate([part.queries for part in self.parts])
        places = np.arange(len(queries), dtype=np.int64)
        # One long sparse row turned into columns is a counting sort by query.
        grouped = csr_array((places, queries, np.array([0, len(queries)])), shape=(1, rows)).tocsc()
        keys = np.concatenate([part.keys for part in self.parts])[grouped.data]
        values = np.concatenate([part.values for part in self.parts])[grouped.data]
        self.parts.clear()
        chosen = np.empty((rows, self.top), np.int32)
        enough = np.zeros(rows, np.bool_)
        for start in range(0, rows, ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, rows)
            bounds = grouped.indptr[start : stop + 1]
            part = slice(bounds[0], bounds[-1])
            table, numbers = as_lines(np.diff(bounds), values[part], keys[part], self.top)
            chosen[start:stop], least = self.chooser.choose(np.arange(start, stop), table, numbers)
            enough[start:stop] = least > self.limits[start:stop] + 2.0 * self.chooser.error
        short = np.flatnonzero(~enough)
        chosen[short] = self.chooser.in_full(short)
        return self._ranked(chosen)

    def _ranked(self, chosen: NDArray[np.int32]) -> TopLists:
        queries = np.repeat(np.arange(len(chosen), dtype=np.int32), self.top)
        ends = queries, chosen.reshape(-1)
        values = pair_values(self.pair, ends[self.side], ends[1 - self.side]).reshape(chosen.shape)
        order = np.lexsort((chosen, -values), axis=1)
        return TopLists(np.take_along_axis(chosen, order, axis=1), np.take_along_axis(values, order, axis=1))
