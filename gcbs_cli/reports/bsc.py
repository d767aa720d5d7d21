"""The batch-softmax contrastive loss with several positives a row, averaged outside the logarithm.

Chernyavskiy et al., Batch-Softmax Contrastive Loss for Pairwise Sentence Scoring Tasks (NAACL 2022):
L_i = mean over the positives p of i among the keys of [ −s_ip / τ + log Σ_j exp(s_ij / τ) ], x→y and y→x. Positives of
i are the rows with its id; the sum is over all keys, positives included. A row that is labelled negative is a key for
others but asks nothing itself and is nobody's positive.

The positives of a row differ between its batch and all rows, so the gap L_global − L_train has a part that no choice of
negatives moves, may be negative, and is bounded neither by the translation nor by the log-sum-exp bound (null). The
oracle sees all positives and the row's own k − 1 hardest keys; with several positives it is no bound, and the closed
share is null.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows, pair_values
from gcbs_cli.mining.positives import Positives
from gcbs_cli.reports.in_batch import BatchSums
from gcbs_cli.reports.losses import AllKeys, LossValues, between, oracle_gap
from gcbs_cli.system.arrays import equal_rows, inverse
from gcbs_cli.system.errors import BadInput

MOST_PAIRS = 1 << 28
"""Pairs of positives that are held at once, 24 bytes each."""


@dataclass(frozen=True)
class RowLabels:
    """ids: (N,) int64, rows with the same one are positives of each other, None where equal rows of x are;
    asks: (N,) which rows are positive pairs, None for all.
    """

    ids: NDArray[np.int64] | None = None
    asks: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class BscTerms:
    """places, others: (P,) each asking row and each of its positives; values: (2, P) their similarities both ways."""

    rows: NDArray[np.int64]
    count: int
    places: NDArray[np.int64]
    others: NDArray[np.int64]
    values: NDArray[np.float64]
    everywhere: NDArray[np.float64]
    comparable: bool
    in_nats: bool

    def everything(self, keys: AllKeys, temperature: float) -> float:
        return float((keys.log_sums - self.everywhere / temperature)[:, self.rows].mean())

    def oracle(self, keys: AllKeys, negatives: int, temperature: float) -> float:
        some = AllKeys(
            keys.log_sums[:, self.rows],
            keys.masked_log_sums[:, self.rows],
            keys.hardest[:, self.rows],
            keys.diagonal[self.rows],
            keys.count,
        )
        return oracle_gap(some, negatives, temperature)

    def of_order(self, perm: NDArray[np.int64], batch_size: int) -> "BscOrder":
        batch = inverse(perm) // batch_size
        together = batch[self.places] == batch[self.others]
        return BscOrder(self, mean_of_positives(self.count, self.places[together], self.values[:, together]))


@dataclass(frozen=True)
class BscOrder:
    """positives: (2, N) mean similarity to the positives in the row's batch."""

    terms: BscTerms
    positives: NDArray[np.float64]

    def values(
        self, keys: AllKeys, sums: BatchSums, number: int, temperature: float, kept: NDArray[np.int64]
    ) -> LossValues:
        kept = kept[np.isin(kept, self.terms.rows)]
        if len(kept) == 0:
            raise BadInput("--labels: no row with label 1 is in a batch that counts")
        own, whole = keys.diagonal[kept] / temperature, sums.seen[kept] == keys.count
        total, masked_total = keys.log_sums[:, kept], keys.masked_log_sums[:, kept]
        batch = between(own, sums.log_sums[:, number][:, kept], total, whole)
        masked = between(own, sums.masked_log_sums[:, number][:, kept], masked_total, whole)
        everywhere, here = self.terms.everywhere[:, kept] / temperature, self.positives[:, kept] / temperature
        more = (here - everywhere).mean()
        return LossValues(
            global_loss=float((total - everywhere).mean()),
            train_loss=float((batch - here).mean()),
            gap=float((total - batch).mean() + more),
            masked_gap=float((masked_total - masked).mean() + more),
            translation_bound=None,
            logsumexp_bound=None,
            positive_probability=float(np.exp(own - batch).mean()),
        )


def bsc_terms(pair: PairedRows, labels: RowLabels) -> BscTerms:
    """The positives of every row. Raises BadInput when no row asks, or there are too many pairs of positives."""
    ids = equal_rows(pair.x)[1] if labels.ids is None else labels.ids
    asks = np.ones(pair.rows, np.bool_) if labels.asks is None else labels.asks
    rows = np.flatnonzero(asks)
    if len(rows) == 0:
        raise BadInput("--labels: every row has label 0; expected some positive pairs")
    # Rows that ask nothing are nobody's positives: only the others are grouped.
    groups = Positives(ids[rows])
    pairs = int(np.square(np.unique(ids[rows], return_counts=True)[1]).sum())
    if pairs > MOST_PAIRS:
        raise BadInput(
            f"--positives: {pairs:,} pairs of positives, more than the {MOST_PAIRS:,} that fit; use finer ids"
        )
    places, others = groups.of(np.arange(len(rows)))
    places, others = rows[places], rows[others]
    ends = places.astype(np.int32), others.astype(np.int32)
    values = np.stack([pair_values(pair, ends[0], ends[1]), pair_values(pair, ends[1], ends[0])])
    everywhere = mean_of_positives(pair.rows, places, values)
    single = groups.most == 1
    return BscTerms(rows, pair.rows, places, others, values, everywhere, comparable=single, in_nats=single)


def mean_of_positives(rows: int, places: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(2, N) the mean of each row's values; 0 for rows without any."""
    counts = np.maximum(np.bincount(places, minlength=rows), 1)
    return np.stack([np.bincount(places, side, minlength=rows) / counts for side in values])
