"""k-means on unit rows with canonical decisions: the same clusters on every device.

Lloyd's algorithm with centres brought back to unit length (spherical k-means: Dhillon and Modha, 2001). Libraries
decide near ties by products whose rounding depends on the machine; here a row's centre is decided as edges are.
"""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.normalise import unit_rows_into
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.backend import Backend
from gcbs_cli.products.nearest import nearest_keys

MOST_ROUNDS = 20
SETTLED_SHARE = 1e-3
"""Rounds stop when fewer rows than this share change their cluster."""
ROWS_AT_ONCE = 1 << 16


def k_means(
    side: NDArray[np.float32], clusters: int, backend: Backend, generator: np.random.Generator, seed: int = 0
) -> NDArray[np.int64]:
    """(N,) the cluster of each unit row; starts from random rows, ends after at most 20 rounds.

    A centre that loses all its rows stays where it is.
    """
    centres = side[np.sort(generator.choice(len(side), clusters, replace=False))]
    found = np.full(len(side), -1, np.int64)
    for _ in range(MOST_ROUNDS):
        before = found
        found = nearest_keys(PairedRows(side, centres), 1, backend, skip_own=False, seed=seed)[:, 0].astype(np.int64)
        if np.count_nonzero(found != before) <= SETTLED_SHARE * len(side):
            break
        centres = _centres(side, found, centres)
    return found


def _centres(side: NDArray[np.float32], found: NDArray[np.int64], before: NDArray[np.float32]) -> NDArray[np.float32]:
    """The unit mean of each cluster; sums are float64 and taken in the order of the rows."""
    from scipy.sparse import csr_array

    sums = np.zeros(before.shape)
    for start in range(0, len(side), ROWS_AT_ONCE):
        some = found[start : start + ROWS_AT_ONCE]
        places = np.arange(len(some))
        members = csr_array((np.ones(len(some)), (some, places)), shape=(len(before), len(some)))
        sums += members @ side[start : start + ROWS_AT_ONCE].astype(np.float64)
    centres = np.empty(before.shape, np.float32)
    empty = unit_rows_into(sums, "float64", centres, normalize=True).zero
    centres[empty] = before[empty]
    return centres
