"""The triplet loss with the hardest negative: max(0, margin + max_j s_ij − s_ii), j ≠ i, in units of similarity.

Hermans, Beyer and Leibe, In Defense of the Triplet Loss (2017): batch-hard, here x→y and y→x with the row's one
positive. Over all rows the maximum is over all N − 1 negatives, in training over those of the batch, so the gap says
how much harder the hardest negative of the data is than the hardest one that training sees. Every row's own k − 1
hardest hold its hardest, so the oracle's gap is 0 and the closed share is the reduction.
"""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.reports.basis import ReportInputs
from gcbs_cli.reports.in_batch import BatchSums
from gcbs_cli.reports.losses import LossTerms
from gcbs_cli.settings.report import Loss


class TripletTerms(LossTerms):
    """beside: (2, 2, N) margin + max_j s_ij − s_ii, by side, and without suspected pairs; −∞ without negatives."""

    in_nats = bounded = False

    def __init__(self, inputs: ReportInputs, loss: Loss) -> None:
        super().__init__(inputs, loss)
        hardest = [[side.hardest[:, 0] for side in inputs.across], [side.hardest_unsuspected for side in inputs.across]]
        self.beside = loss.margin + np.array(hardest) - inputs.diagonal

    def beside_in(self, sums: BatchSums, perm: NDArray[np.int64], batch_size: int) -> NDArray[np.float64]:
        # The hardest of a batch is one of all, however two roundings of one product may differ.
        return np.minimum(self.loss.margin + sums.hardest - self.inputs.diagonal, self.beside)

    def losses(
        self, log_sums: NDArray[np.float64], beside: NDArray[np.float64], temperature: float
    ) -> NDArray[np.float64]:
        return np.maximum(beside, 0.0)

    def oracle(self, number: int, negatives: int) -> NDArray[np.float64]:
        return np.zeros_like(self.log_sums[number, 0])
