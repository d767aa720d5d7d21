"""The triplet loss with the hardest negative: max(0, margin + max_j s_ij − s_ii), j ≠ i, in units of similarity.

Hermans, Beyer and Leibe, In Defense of the Triplet Loss (2017): batch-hard, here x→y and y→x with the row's one
positive. Over all rows the maximum is over all N − 1 negatives, in training over those of the batch, so the gap says
how much harder the hardest negative of the data is than the hardest one that training sees. Every row's own k − 1
hardest hold its hardest, so the oracle's gap is 0 and the closed share is the reduction.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.suspects import SuspectPairs
from gcbs_cli.reports.in_batch import hardest_in_batches
from gcbs_cli.reports.losses import AllKeys, LossTerms, OrderTerms


class TripletTerms(LossTerms):
    """hardest, masked_hardest: (2, N) largest similarity to a negative, without suspected pairs in the second."""

    in_nats = bounded = False

    def __init__(
        self,
        pair: PairedRows,
        suspects: SuspectPairs,
        margin: float,
        positives: NDArray[np.float64],
        hardest: NDArray[np.float32],
        masked_hardest: NDArray[np.float32],
    ) -> None:
        super().__init__(positives)
        self.pair, self.suspects, self.margin = pair, suspects, margin
        self.hardest, self.masked_hardest = hardest, masked_hardest

    def everything(self, log_sums: NDArray[np.float64], temperature: float, *, masked: bool) -> NDArray[np.float64]:
        """(2, N) against the hardest negative of all; 0 for a row without negatives."""
        hardest = self.masked_hardest if masked else self.hardest
        losses: NDArray[np.float64] = np.maximum(self.margin + hardest - self.positives, 0.0)
        return losses

    def in_order(self, perm: NDArray[np.int64], batch_size: int) -> OrderTerms:
        """Against the hardest negative of the row's batch."""
        found = hardest_in_batches(self.pair, perm, batch_size, self.suspects)

        def losses(log_sums: NDArray[np.float64], rows: NDArray[np.int64], temperature: float, *, masked: bool) -> Any:
            everything = self.everything(log_sums, temperature, masked=masked)[:, rows]
            here = np.maximum(self.margin + found[masked][:, rows] - self.positives[rows], 0.0)
            # The hardest of a batch is one of all, however two roundings of one product may differ.
            return np.minimum(here, everything)

        return losses

    def oracle(self, keys: AllKeys, negatives: int, temperature: float) -> NDArray[np.float64]:
        """Its own hardest negatives hold the hardest of all."""
        return np.zeros_like(keys.log_sums)
