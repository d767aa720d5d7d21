"""Build gap reports by every loss: one pass over all pairs, then the plan's and the random trials' batches."""

import numpy as np

from gcbs_cli.data.pairs import PairedRows, Positives, pair_values
from gcbs_cli.products.sums import ACROSS
from gcbs_cli.reports.basis import ReportInputs, RowFacts
from gcbs_cli.reports.in_batch import BatchSums
from gcbs_cli.reports.losses import Measured, OrderReports
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.report import Loss, ReportSettings
from gcbs_cli.system.arrays import Bools, Floats, Ints, inverse
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress

MOST_PAIRS = 1 << 28
"""Pairs of positives that are held at once, 24 bytes each."""


class TripletReports(OrderReports):
    """With the hardest negative: max(0, margin + max_j s_ij − s_ii), j ≠ i, in units of similarity.

    Hermans, Beyer and Leibe, In Defense of the Triplet Loss (2017): batch-hard, here x→y and y→x with the row's one
    positive. Over all rows the maximum is over all N − 1 negatives, in training over those of the batch, so the gap
    says how much harder the hardest negative of the data is than the hardest one that training sees. Every row's own
    k − 1 hardest hold its hardest, so the oracle's gap is 0 and the closed share is the reduction.

    beside: (2, 2, N) margin + max_j s_ij − s_ii, by side, and without suspected pairs; −∞ without negatives.
    """

    in_nats = bounded = False

    def __init__(self, inputs: ReportInputs, loss: Loss, batch_size: int) -> None:
        super().__init__(inputs, loss, batch_size)
        across = [inputs.sums[False][sides] for sides in ACROSS]
        hardest = [[side.hardest[:, 0] for side in across], [side.hardest_unsuspected for side in across]]
        self.beside = loss.margin + np.array(hardest) - inputs.diagonal

    def beside_in(self, sums: BatchSums, perm: Ints, batch_size: int) -> Floats:
        # The hardest of a batch is one of all, however two roundings of one product may differ.
        return np.minimum(self.loss.margin + sums.hardest - self.inputs.diagonal, self.beside)

    def losses(self, log_sums: Floats, beside: Floats, temperature: float) -> Floats:
        return np.maximum(beside, 0.0)

    def oracle(self) -> Floats:
        return np.zeros_like(self.log_sums[:, 0])


class BscReports(OrderReports):
    """The batch-softmax contrastive loss with several positives a row, averaged outside the logarithm.

    Chernyavskiy et al., Batch-Softmax Contrastive Loss for Pairwise Sentence Scoring Tasks (NAACL 2022): L_i = mean
    over the positives p of i among the keys of [ −s_ip / τ + log Σ_j exp(s_ij / τ) ], x→y and y→x. Positives of i are
    the rows with its id; the sum is over all keys, positives included. A row that is labelled negative is a key for
    others but asks nothing itself and is nobody's positive: 1[y_i > t] in eq. 5, which divides by the number of all
    rows. Eq. 6 adds the mean squared distance of s_ii from the label, which no order changes. The paper adds x→y and
    y→x; this is their mean, as in the authors' code.

    The positives of a row differ between its batch and all rows, so the gap L_global − L_train has a part that no
    choice of negatives moves, may be negative, and is bounded neither by the translation nor by the log-sum-exp bound
    (null). The oracle sees all positives and the row's own k − 1 hardest keys; with several positives it is no bound,
    and the closed share is null.

    beside: (2, N) the mean similarity of a row to its positives, by side; 0 for rows without any.

    Raises BadInput when there are too many pairs of positives.
    """

    bounded = False

    def __init__(self, inputs: ReportInputs, loss: Loss, batch_size: int) -> None:
        super().__init__(inputs, loss, batch_size)
        pairs, facts, ids = inputs.pairs, inputs.facts, inputs.positives
        self._targets = np.ones(pairs.rows) if facts.labels is None else facts.labels
        self._asking = np.flatnonzero(ids >= 0)
        sizes = np.bincount(ids[self._asking])
        count = int(np.square(sizes).sum())
        if count > MOST_PAIRS:
            raise BadInput(
                f"--positives: {count:,} pairs of positives, more than the {MOST_PAIRS:,} that fit; use finer ids"
            )
        self.comparable = bool(sizes.max() == 1)
        self.in_nats = self.comparable and loss.divide_by == "positives" and loss.mse is None
        places, self._others = Positives(ids).of(self._asking)
        self._places = self._asking[places]
        ends = (self._places, self._others), (self._others, self._places)
        self._products = np.stack([pair_values(pairs, rows, cols) for rows, cols in ends])
        self.beside = self._means(slice(None))

    def _means(self, chosen: "slice | Bools") -> Floats:
        """(2, N) the mean of each row's values, of the chosen pairs."""
        rows, places = self.inputs.pairs.rows, self._places[chosen]
        counts = np.maximum(np.bincount(places, minlength=rows), 1)
        return np.stack([np.bincount(places, side, minlength=rows) / counts for side in self._products[:, chosen]])

    def beside_in(self, sums: BatchSums, perm: Ints, batch_size: int) -> Floats:
        batch = inverse(perm) // batch_size
        return self._means(batch[self._places] == batch[self._others])

    def rows(self, counted: Ints) -> Ints:
        """Raises BadInput where none of them asks."""
        rows = counted[np.isin(counted, self._asking)]
        if len(rows) == 0:
            raise BadInput("--labels: no positive pair is in a batch that counts")
        return rows

    def combined(self, counted: Ints) -> tuple[float, float]:
        share = len(self.rows(counted)) / len(counted) if self.loss.divide_by == "all" else 1.0
        if self.loss.mse is None:
            return share, 0.0
        squared = np.square(self.inputs.diagonal[counted] - self._targets[counted])
        return self.loss.mse * share, (1.0 - self.loss.mse) * float(squared.mean())


OF_LOSS: dict[str, type[OrderReports]] = {"bsc": BscReports, "triplet": TripletReports}


def make_reports(
    pairs: PairedRows,
    perm: Ints | None,
    settings: ReportSettings,
    watcher: Progress | None = None,
    *,
    facts: RowFacts | None = None,
) -> list[GapReport]:
    """One report for each loss, batch size and temperature, in that order of nesting.

    `perm`: the (N,) permutation to report on; None tells what random batches leave and what the oracle could close.
    Raises BadInput for settings that do not fit the data, and before the passes where there is too little memory.
    """
    return [measured.report for measured in measure(ReportInputs(pairs, settings, watcher, facts), perm)]


def measure(inputs: ReportInputs, perm: Ints | None) -> list[Measured]:
    """The same, and what the reports were taken from, for a page."""
    return [
        measured
        for loss in inputs.settings.losses
        for batch_size in inputs.settings.batch_sizes
        for measured in OF_LOSS.get(loss.kind, OrderReports)(inputs, loss, batch_size).of(perm)
    ]
