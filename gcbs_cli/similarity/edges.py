"""One pass over X Yᵀ to the entries at or above a threshold."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.similarity.backend import Backend, Entries, below
from gcbs_cli.similarity.canonical_values import UnitPair, settle
from gcbs_cli.similarity.tiles import BlockStore, Kept, Progress, Tile, cut, run_tiles


@dataclass(frozen=True)
class Exceedances:
    """The entries s_ij >= threshold, the diagonal included: row, column (int32) and value (float64).

    A value is canonical where it lies near the threshold, and the device's float32 product elsewhere.
    """

    threshold: float
    rows: NDArray[np.int32]
    cols: NDArray[np.int32]
    values: NDArray[np.float64]

    def above(self) -> "Exceedances":
        """Only the entries strictly above the threshold: those that make an edge."""
        keep = self.values > self.threshold
        return Exceedances(self.threshold, self.rows[keep], self.cols[keep], self.values[keep])


def exceedances_of_tile(backend: Backend, product: object, tile: Tile, pair: UnitPair, threshold: float) -> Exceedances:
    """The entries of one tile at or above the threshold, those near it decided canonically."""
    error = backend.error(pair.dim)
    return _settled(backend.above(product, below(threshold, error)), tile, pair, threshold, error)


def _settled(found: Entries, tile: Tile, pair: UnitPair, threshold: float, error: float) -> Exceedances:
    rows, cols = found.rows + tile.rows.start, found.cols + tile.cols.start
    values = settle(pair, rows, cols, found.values, threshold, error)
    keep = values >= threshold
    return Exceedances(threshold, rows[keep].astype(np.int32), cols[keep].astype(np.int32), values[keep])


def join(parts: list[Exceedances], threshold: float) -> Exceedances:
    """All parts one after the other."""
    return Exceedances(
        threshold,
        np.concatenate([part.rows for part in parts] or [np.empty(0, np.int32)]),
        np.concatenate([part.cols for part in parts] or [np.empty(0, np.int32)]),
        np.concatenate([part.values for part in parts] or [np.empty(0, np.float64)]),
    )


def find_exceedances(
    pair: UnitPair,
    threshold: float,
    backend: Backend,
    *,
    tile_rows: int | None = None,
    progress: Progress | None = None,
    store: BlockStore | None = None,
) -> Exceedances:
    """Every entry s_ij >= threshold of X Yᵀ, the same whatever the device and the size of the tiles.

    `store`: where finished tiles outlive this process. Memory: 16 bytes an entry found, and the scratch of the tiles.
    """
    find, error = backend.finder(pair.x, pair.y, threshold), backend.error(pair.dim)

    def work(tile: Tile) -> Exceedances:
        return _settled(find(tile), tile, pair, threshold, error)

    tiles = cut(pair.rows, pair.rows, tile_rows)
    kept = None if store is None else kept_exceedances(store, f"edges {threshold.hex()} {backend.name}", threshold)
    return join([found for _, found in run_tiles(backend, tiles, work, progress, kept)], threshold)


def kept_exceedances(store: BlockStore, pass_name: str, threshold: float) -> Kept[Exceedances]:
    """How a pass to the entries above a threshold keeps its results."""
    return Kept(
        store,
        pass_name,
        3,
        lambda found: (found.rows, found.cols, found.values),
        lambda arrays: Exceedances(threshold, *arrays),
    )
