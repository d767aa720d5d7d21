"""k-means of unit rows held as whole numbers, the same on every machine.

Unit rows times 3,500, rounded, have products below 2²⁴ (Cauchy and Schwarz bound every partial sum by the product of
the norms), which float32 holds exactly. So a matrix product by any library, in any order of summation, gives the same
bits. Rounding changes a similarity by 1e-4, which is nothing to a coarse partition.
"""

from collections.abc import Callable

import numpy as np

from gcbs_cli.data.reading import unit_rows_into
from gcbs_cli.system.arrays import Float32s, Int32s, Ints

SCALE = 3500
"""(3500 + √d / 2)² is below 2²⁴ for up to 1.4 million coordinates."""
MOST_ROUNDS = 20
SETTLED_SHARE = 1e-3
"""Rounds of k-means stop when fewer rows than this share change their cluster."""
ROWS_AT_ONCE = 1 << 14


def whole(rows: Float32s) -> Float32s:
    """Unit rows (n, d) as whole numbers held in float32."""
    return np.rint(rows * np.float32(SCALE))


def products(rows: Float32s, centres: Float32s) -> Int32s:
    """(n, P) exact products of whole rows and whole centres; SCALE² is a similarity of 1."""
    return (rows @ centres.T).astype(np.int32)


def nearest(rows: Float32s, centres: Float32s) -> Ints:
    """(N,) the centre with the largest product, of equal ones the first."""
    starts = range(0, len(rows), ROWS_AT_ONCE)
    return np.concatenate([np.argmax(products(rows[i : i + ROWS_AT_ONCE], centres), axis=1) for i in starts])


def means_of(rows: Float32s, clusters: Ints, centres: Float32s) -> Float32s:
    """Whole unit means of the whole rows of each cluster; a centre without rows stays as it was."""
    from scipy.sparse import csr_array

    members = csr_array((np.ones(len(rows)), (clusters, np.arange(len(rows)))), shape=(len(centres), len(rows)))
    means = np.empty(centres.shape, np.float32)
    empty = unit_rows_into(np.asarray(members @ rows), means, normalize=True)
    means = whole(means)
    means[empty] = centres[empty]
    return means


def k_means(
    rows: Float32s,
    clusters: int,
    generator: np.random.Generator,
    assign: Callable[[Float32s, Float32s], Ints] = nearest,
) -> tuple[Ints, Float32s]:
    """(N,) the cluster of each whole row, and the centres; starts from random rows, ends after at most 20 rounds.

    Lloyd's algorithm with centres brought back to unit length (spherical k-means: Dhillon and Modha, 2001). assign:
    gives the clusters of rows by the centres.
    """
    centres = rows[np.sort(generator.choice(len(rows), clusters, replace=False))]
    cluster = np.full(len(rows), -1, np.int64)
    for _ in range(MOST_ROUNDS):
        before = cluster
        cluster = assign(rows, centres)
        if np.count_nonzero(cluster != before) <= SETTLED_SHARE * len(rows):
            break
        centres = means_of(rows, cluster, centres)
    return cluster, centres
