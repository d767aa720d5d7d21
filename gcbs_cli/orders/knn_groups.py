"""Put each row with its nearest neighbours that are still free.

Chernyavskiy et al., Batch-Softmax Contrastive Loss for Pairwise Sentence Scoring Tasks (NAACL 2022), algorithm 1.
"""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.system.compiled import compiled


def plan_knn_groups(
    neighbours: NDArray[np.int32],
    group_size: int,
    generator: np.random.Generator,
    contents: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """(N,) an order of groups: in random order, each free row and its `group_size` − 1 nearest free neighbours.

    `neighbours`: (N, n) rows, nearest first; `contents`: (N,) a number for each row, neighbours with the row's own
    number are passed over. The rows that come last find no free neighbour, so the order is reversed: training begins
    with the easy groups of one.
    """
    visits = generator.permutation(len(neighbours))
    numbers = np.arange(len(neighbours)) if contents is None else contents
    return _grouped(neighbours, visits, numbers, group_size)[::-1].copy()


@compiled
def _grouped(
    neighbours: NDArray[np.int32], visits: NDArray[np.int64], contents: NDArray[np.int64], group_size: int
) -> NDArray[np.int64]:
    count, width = neighbours.shape
    order = np.empty(count, np.int64)
    used = np.zeros(count, np.bool_)
    placed = 0
    for visit in range(count):
        row = visits[visit]
        if used[row]:
            continue
        used[row] = True
        order[placed] = row
        placed += 1
        members = 1
        for place in range(width):
            if members == group_size:
                break
            other = neighbours[row, place]
            if not used[other] and contents[other] != contents[row]:
                used[other] = True
                order[placed] = other
                placed += 1
                members += 1
    return order
