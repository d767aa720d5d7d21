"""What many rooms do to arrays: invert a permutation, group equal keys, lay out lists, number groups and equal rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Ints = NDArray[np.int64]
Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
Float32s = NDArray[np.float32]
Bools = NDArray[np.bool_]


def inverse(perm: NDArray[np.integer[Any]]) -> Ints:
    """(N,) the position of each of 0 … N − 1 in a permutation of them."""
    positions = np.empty(len(perm), np.int64)
    positions[perm] = np.arange(len(perm))
    return positions


def grouped(keys: NDArray[np.integer[Any]], count: int) -> tuple[Ints, Ints]:
    """The places of the keys 0 to count − 1 in rising order, equal ones as they come, and where each key's begin.

    (n,) and (count + 1,).
    """
    starts = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=count))])
    return np.argsort(keys, kind="stable"), starts


def ragged(lengths: NDArray[np.integer[Any]]) -> tuple[Ints, Ints]:
    """For each entry of lists laid end to end: the number of its list, and its place within that list."""
    lists = np.repeat(np.arange(len(lengths)), lengths)
    return lists, np.arange(len(lists)) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def equal_rows(side: Float32s) -> tuple[Ints, Ints]:
    """The first row of each content, and (N,) the number of each row's content. Rows of equal numbers are equal."""
    rows = np.ascontiguousarray(side) + np.float32(0.0)  # −0.0 becomes 0.0: equal numbers, other bytes
    as_bytes = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).reshape(-1)
    _, first, numbers = np.unique(as_bytes, return_index=True, return_inverse=True)
    return first.astype(np.int64), numbers.reshape(-1).astype(np.int64)


def group_numbers(groups: Ints) -> Int32s:
    """(N,) the same number for rows with the same id >= 0, one of its own for each other row; all below 2N."""
    numbers = np.unique(groups, return_inverse=True)[1]
    return np.where(groups < 0, len(groups) + np.arange(len(groups)), numbers).astype(np.int32)


def joined(ids: Ints) -> Ints:
    """(N,) the same number for rows that a chain of equal ids joins, rising from row to row; ids: (L, N)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rows = np.broadcast_to(np.arange(ids.shape[1]), ids.shape).ravel()
    links = coo_array(
        (np.ones(ids.size), (rows, ids.shape[1] + ids.ravel())), shape=(ids.shape[1] + ids.max() + 1,) * 2
    )
    return connected_components(links)[1][: ids.shape[1]].astype(np.int64)
