"""Put each row with its nearest neighbours that are still free.

Chernyavskiy et al., Batch-Softmax Contrastive Loss for Pairwise Sentence Scoring Tasks (NAACL 2022), algorithm 1.
"""

import numpy as np

from gcbs_cli.system.arrays import Int32s, Ints
from gcbs_cli.system.compiled import compiled


def plan_knn_groups(
    neighbours: Int32s, group_size: int, generator: np.random.Generator, contents: Ints | None = None
) -> Ints:
    """(N,) an order of groups: in random order, each free row and its `group_size` − 1 nearest free neighbours.

    `neighbours`: (N, n) rows, nearest first; `contents`: (N,) a number for each row, neighbours with the row's own
    number are passed over. The rows that come last find no free neighbour, so the order is reversed: training begins
    with the easy groups of one.
    """
    visits = generator.permutation(len(neighbours))
    numbers = np.arange(len(neighbours)) if contents is None else contents
    return _grouped(neighbours, visits, numbers, group_size)[::-1].copy()


@compiled
def _grouped(neighbours: Int32s, visits: Ints, contents: Ints, group_size: int) -> Ints:
    order, used, placed = np.empty(len(visits), np.int64), np.zeros(len(visits), np.bool_), 0
    for row in visits:
        if used[row]:
            continue
        used[row], order[placed] = True, row
        first = placed
        placed += 1
        for other in neighbours[row]:
            if placed - first == group_size:
                break
            if not used[other] and contents[other] != contents[row]:
                used[other], order[placed] = True, other
                placed += 1
    return order
