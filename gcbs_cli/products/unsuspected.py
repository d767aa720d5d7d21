"""The hardest negative of each row that is no suspected false negative."""

from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.products.backend import Backend
from gcbs_cli.products.global_sums import SuspectLookup, remove_own
from gcbs_cli.products.suspects import SuspectPairs
from gcbs_cli.products.tiles import BlockStore, Kept, Progress, Tile, run_tiles, tiles_for


def largest_unsuspected(
    queries: NDArray[np.float32],
    keys: NDArray[np.float32],
    suspects: SuspectPairs,
    backend: Backend,
    *,
    tile_rows: int | None = None,
    progress: Progress | None = None,
    store: BlockStore | None = None,
    stage: str = "unsuspected",
) -> NDArray[np.float32]:
    """(N,) the largest similarity of row i to a key other than i and its suspected partners; −inf without one.

    One pass over all products. `store`: where finished tiles outlive this process, as this `stage` of the run.
    """
    count = len(queries)
    left, right = backend.load(queries), backend.load(keys)
    lookup = SuspectLookup(suspects, count)

    def work(tile: Tile) -> NDArray[np.float32]:
        product = backend.product(left, right, tile.rows, tile.cols)
        remove_own(backend, product, tile, lookup)
        return backend.row_threshold(product, 1)

    largest = np.full(count, -np.inf, np.float32)
    settings = f"{suspects.fingerprint()} {backend.name}"
    kept = None if store is None else Kept(store, stage, settings, 1, lambda found: [found], itemgetter(0))
    for tile, found in run_tiles(backend, tiles_for(backend, count, count, tile_rows), work, progress, kept):
        np.maximum(largest[tile.rows], found, out=largest[tile.rows])
    return largest
