"""B3 (Thirukovalluru et al., NeurIPS 2025): clusters of a teacher's graph of ranks, mixed into the batch."""

import numpy as np

from peers.common import Order, Rows, nearest

RANKS = (30, 130)
"""The first are left out as likely false negatives (the paper's p and p + m)."""
CLUSTER_ROWS = 32


class B3:
    """A planner of one run. Its teacher is what the heads give before training; clusters are found once.

    Two rows are joined where each is among the other's answers at these ranks. METIS parts the graph, all edges alike;
    each epoch mixes the clusters anew. METIS's parts are of nearly even size, so that a batch may begin within one.
    """

    def __init__(self, ranks: tuple[int, int] = RANKS, cluster_rows: int = CLUSTER_ROWS) -> None:
        self.ranks, self.cluster_rows = ranks, cluster_rows
        self._parts: list[Order] | None = None

    def __call__(self, x: Rows, y: Rows, seed: int) -> Order:
        """The order of one epoch."""
        if self._parts is None:
            self._parts = self._clusters(x, y)
        draws = np.random.default_rng(seed)
        mixed = draws.permutation(len(self._parts))
        return np.concatenate([draws.permutation(self._parts[part]) for part in mixed])

    def _clusters(self, x: Rows, y: Rows) -> list[Order]:
        import pymetis
        from scipy.sparse import csr_array

        count, (first, last) = len(x), self.ranks
        answers = nearest(x, y, last, first)
        offsets = np.arange(count + 1) * (last - first)
        graph = csr_array((np.ones(answers.size, np.int8), answers.ravel(), offsets), shape=(count, count))
        mutual = csr_array(graph.multiply(graph.T))
        parts = pymetis.part_graph(
            max(1, count // self.cluster_rows), pymetis.CSRAdjacency(mutual.indptr, mutual.indices)
        )[1]
        labels = np.asarray(parts)
        return [np.flatnonzero(labels == part) for part in np.unique(labels)]
