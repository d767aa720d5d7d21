"""The losses a report knows, and what each makes of the sums over all keys and over a batch's keys."""

from itertools import product

import numpy as np

from gcbs_cli.reports.basis import ReportInputs
from gcbs_cli.reports.in_batch import ROWS_AT_ONCE, BatchSums
from gcbs_cli.settings.report import Loss
from gcbs_cli.system.arrays import Floats, Ints


class LossTerms:
    """A loss over all keys and over those of a batch: here −s_ii / τ + log Σ exp(s_ij / τ), in S directions.

    log_sums: (T, 2, S, N) over all keys, without suspected pairs in the second; hardest: of each direction (N, K) the
    largest similarities to negatives; keys: how many a row has in all. suspects: the suspected pairs that the loss
    takes for negatives. beside: what the loss takes beside the log sums, here (N,) s_ii.
    Losses that are more than a mean of log sums against one positive override what differs.
    """

    in_nats = True
    """Whether it is a cross-entropy against one positive, so that log k − L_train bounds mutual information."""
    comparable = True
    """Whether the oracle bounds what a plan can close."""
    bounded = True
    """Whether the translation and the log-sum-exp bound hold."""
    beside: Floats

    def __init__(self, inputs: ReportInputs, loss: Loss) -> None:
        self.inputs, self.loss, self.suspects, self.beside = inputs, loss, inputs.suspects, inputs.diagonal
        self.keys = loss.keys_in_all(inputs.pair.rows)
        self.in_nats = self.in_nats and loss.top is None
        views = inputs.same_side if loss.views else ()
        sides = [[inputs.across[side], *views[side : side + 1]] for side in loss.sides]
        sums = np.stack([np.logaddexp.reduce([[part.log_sums, part.masked] for part in parts]) for parts in sides])
        # The positive is one of the keys, however the float32 products round.
        temperatures = np.reshape(inputs.settings.temperatures, (-1, 1, 1, 1))
        self.log_sums = np.maximum(sums.transpose(2, 1, 0, 3), inputs.diagonal / temperatures)
        self.hardest = [parts[0].hardest for parts in sides]
        if views:
            self.hardest = [np.concatenate([part.hardest for part in parts], axis=1) for parts in sides]
            for hardest in self.hardest:
                hardest[:, ::-1].sort(axis=1)

    def beside_in(self, sums: BatchSums, perm: Ints, batch_size: int) -> Floats:
        """The same as `beside` in the batches of an order, whose sums these are."""
        return self.beside

    def rows(self, counted: Ints) -> Ints:
        """Those of the counted rows that have a loss."""
        return counted

    def combined(self, counted: Ints) -> tuple[float, float]:
        """What the mean loss over the rows that have one is multiplied by, and what is added, for the counted rows."""
        return 1.0, 0.0

    def losses(self, log_sums: Floats, beside: Floats, temperature: float) -> Floats:
        """(2, S, n) the loss of each row and direction, and the same without suspected pairs."""
        return log_sums - beside / temperature

    def oracle(self, number: int, negatives: int) -> Floats:
        """(S, N) the gap of each row if it saw its own hardest negatives: no partition of the rows reaches the mean.

        number: of the temperature.
        """
        log_sums, temperature = self.log_sums[number, 0], self.inputs.settings.temperatures[number]
        if negatives == self.keys - 1:
            return np.zeros_like(log_sums)
        seen = np.empty_like(log_sums)
        for (side, hardest), start in product(enumerate(self.hardest), range(0, log_sums.shape[1], ROWS_AT_ONCE)):
            some = slice(start, start + ROWS_AT_ONCE)
            positive, hard = self.inputs.diagonal[some], hardest[some, :negatives]
            keys = np.hstack([positive[:, None], hard]) / temperature
            largest = keys.max(axis=1)
            seen[side, some] = largest + np.log(np.exp(keys - largest[:, None]).sum(axis=1))
        return np.maximum(log_sums - seen, 0.0)


class TripletTerms(LossTerms):
    """With the hardest negative: max(0, margin + max_j s_ij − s_ii), j ≠ i, in units of similarity.

    Hermans, Beyer and Leibe, In Defense of the Triplet Loss (2017): batch-hard, here x→y and y→x with the row's one
    positive. Over all rows the maximum is over all N − 1 negatives, in training over those of the batch, so the gap
    says how much harder the hardest negative of the data is than the hardest one that training sees. Every row's own
    k − 1 hardest hold its hardest, so the oracle's gap is 0 and the closed share is the reduction.

    beside: (2, 2, N) margin + max_j s_ij − s_ii, by side, and without suspected pairs; −∞ without negatives.
    """

    in_nats = bounded = False

    def __init__(self, inputs: ReportInputs, loss: Loss) -> None:
        super().__init__(inputs, loss)
        hardest = [[side.hardest[:, 0] for side in inputs.across], [side.hardest_unsuspected for side in inputs.across]]
        self.beside = loss.margin + np.array(hardest) - inputs.diagonal

    def beside_in(self, sums: BatchSums, perm: Ints, batch_size: int) -> Floats:
        # The hardest of a batch is one of all, however two roundings of one product may differ.
        return np.minimum(self.loss.margin + sums.hardest - self.inputs.diagonal, self.beside)

    def losses(self, log_sums: Floats, beside: Floats, temperature: float) -> Floats:
        return np.maximum(beside, 0.0)

    def oracle(self, number: int, negatives: int) -> Floats:
        return np.zeros_like(self.log_sums[number, 0])
