"""The triplet loss with the hardest negative: max(0, margin + max_j s_ij − s_ii), j ≠ i, in units of similarity.

Hermans, Beyer and Leibe, In Defense of the Triplet Loss (2017): batch-hard, here x→y and y→x with the row's one
positive. Over all rows the maximum is over all N − 1 negatives, in training over those of the batch, so the gap says
how much harder the hardest negative of the data is than the hardest one that training sees. Every row's own k − 1
hardest hold its hardest, so the oracle's gap is 0 and the closed share is the reduction.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.suspects import SuspectPairs
from gcbs_cli.reports.in_batch import BatchSums, hardest_in_batches
from gcbs_cli.reports.losses import AllKeys, LossValues, between


@dataclass(frozen=True)
class TripletTerms:
    """hardest, masked_hardest: (2, N) largest similarity to a negative, without suspected pairs in the second."""

    pair: PairedRows
    suspects: SuspectPairs
    margin: float
    diagonal: NDArray[np.float64]
    hardest: NDArray[np.float32]
    masked_hardest: NDArray[np.float32]
    in_nats: bool = False
    comparable: bool = True

    def rows(self, hardest: NDArray[np.float32]) -> NDArray[np.float64]:
        """(2, N) the loss of each row in each direction; 0 for a row without negatives."""
        losses: NDArray[np.float64] = np.maximum(self.margin + hardest - self.diagonal, 0.0)
        return losses

    def everything(self, keys: AllKeys, temperature: float) -> float:
        return float(self.rows(self.hardest).mean())

    def oracle(self, keys: AllKeys, negatives: int, temperature: float) -> float:
        return 0.0

    def of_order(self, perm: NDArray[np.int64], batch_size: int) -> "TripletOrder":
        return TripletOrder(self, *hardest_in_batches(self.pair, perm, batch_size, self.suspects))


@dataclass(frozen=True)
class TripletOrder:
    """hardest, masked_hardest: (2, N) the same among the negatives of each row's batch."""

    terms: TripletTerms
    hardest: NDArray[np.float32]
    masked_hardest: NDArray[np.float32]

    def values(
        self, keys: AllKeys, sums: BatchSums, number: int, temperature: float, kept: NDArray[np.int64]
    ) -> LossValues:
        terms = self.terms
        total, masked_total = (terms.rows(part)[:, kept] for part in (terms.hardest, terms.masked_hardest))
        # The hardest of a batch is one of all, however two roundings of one product may differ.
        batch = np.minimum(terms.rows(self.hardest)[:, kept], total)
        masked = np.minimum(terms.rows(self.masked_hardest)[:, kept], masked_total)
        positive = terms.diagonal[kept] / temperature
        seen = between(
            positive, sums.log_sums[:, number][:, kept], keys.log_sums[:, kept], sums.seen[kept] == keys.count
        )
        return LossValues(
            global_loss=float(total.mean()),
            train_loss=float(batch.mean()),
            gap=float((total - batch).mean()),
            masked_gap=float((masked_total - masked).mean()),
            translation_bound=None,
            logsumexp_bound=None,
            positive_probability=float(np.exp(positive - seen).mean()),
        )
