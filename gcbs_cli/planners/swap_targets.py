"""Which batches a row tries, and which of their rows may change places with it: what both searches share."""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.compiled import compiled
from gcbs_cli.planners.keeping_apart import rival


@compiled
def next_target(around: NDArray[np.int64], worth: NDArray[np.float64], tried: int, count: int) -> int:
    """The batch of most worth among around[tried:count], which is moved to the front of them; the first of equals."""
    most = tried
    for q in range(tried + 1, count):
        if worth[around[q]] > worth[around[most]]:
            most = q
    there = around[most]
    around[most] = around[tried]
    around[tried] = there
    return there


@compiled
def may_leave(
    row: int,
    place: int,
    only_place: int,
    first: int,
    stop: int,
    leaver: int,
    perm: NDArray[np.int64],
    labels: NDArray[np.int64],
) -> bool:
    """Whether the row at a place may go to the batch first:stop, whose row `leaver` takes its place.

    `only_place`: where the leaver has a mate that must be the one to go, −1 where it has none.
    """
    return (only_place < 0 or place == only_place) and rival(row, first, stop, leaver, perm, labels) == -1
