"""The hardest negative of each row that is no suspected false negative."""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.products.backend import Backend
from gcbs_cli.products.global_sums import SuspectLookup, remove_own
from gcbs_cli.products.suspects import SuspectPairs
from gcbs_cli.products.tiles import Progress, Tile, run_tiles, tiles_for


def largest_unsuspected(
    queries: NDArray[np.float32],
    keys: NDArray[np.float32],
    suspects: SuspectPairs,
    backend: Backend,
    *,
    tile_rows: int | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """(N,) the largest similarity of row i to a key other than i and its suspected partners; −inf without one.

    One pass over all products.
    """
    count = len(queries)
    left, right = backend.load(queries), backend.load(keys)
    lookup = SuspectLookup(suspects, count)

    def work(tile: Tile) -> NDArray[np.float32]:
        product = backend.product(left, right, tile.rows, tile.cols)
        remove_own(backend, product, tile, lookup)
        return backend.row_threshold(product, 1)

    largest = np.full(count, -np.inf, np.float32)
    for tile, found in run_tiles(backend, tiles_for(backend, count, count, tile_rows), work, progress):
        np.maximum(largest[tile.rows], found, out=largest[tile.rows])
    return largest
