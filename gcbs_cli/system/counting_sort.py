"""Sort by small whole numbers in linear time, where a comparison sort would take most of a pass."""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.system.compiled import compiled


def grouped(keys: NDArray[np.int32], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(n,) the places of the keys 0 to count − 1 in rising order, equal ones as they come, and (count + 1,) where each
    key's places begin.
    """
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=starts[1:])
    places = np.empty(len(keys), np.int64)
    _place(keys, starts[:-1].copy(), places)
    return places, starts


@compiled
def _place(keys: NDArray[np.int32], next_free: NDArray[np.int64], places: NDArray[np.int64]) -> None:
    for place in range(len(keys)):
        key = keys[place]
        places[next_free[key]] = place
        next_free[key] += 1
