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

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows, pair_values
from gcbs_cli.data.positives import Positives
from gcbs_cli.products.suspects import SuspectPairs, group_numbers
from gcbs_cli.reports.losses import AllKeys, LossTerms, OrderTerms
from gcbs_cli.system.arrays import equal_rows, inverse
from gcbs_cli.system.errors import BadInput

MOST_PAIRS = 1 << 28
"""Pairs of positives that are held at once, 24 bytes each."""


@dataclass(frozen=True)
class RowLabels:
    """ids: (N,) int64, rows with the same one are positives of each other, None where equal rows of x are;
    is_query: (N,) which rows are positive pairs, None for all.
    """

    ids: NDArray[np.int64] | None = None
    is_query: NDArray[np.bool_] | None = None


class BscTerms(LossTerms):
    """asking: rows that ask; places, others: (P,) each with each of its positives; values: (2, P) both similarities.

    Raises BadInput when no row asks, or there are too many pairs of positives.
    """

    bounded = False

    def __init__(self, pair: PairedRows, labels: RowLabels, suspects: SuspectPairs) -> None:
        ids = equal_rows(pair.x)[1] if labels.ids is None else labels.ids
        asks = np.ones(pair.rows, np.bool_) if labels.is_query is None else labels.is_query
        self.asking = np.flatnonzero(asks)
        if len(self.asking) == 0:
            raise BadInput("--labels: every row has label 0; expected some positive pairs")
        # Rows that ask nothing are nobody's positives: only the others are grouped.
        groups = Positives(ids[self.asking])
        pairs = int(np.square(np.unique(ids[self.asking], return_counts=True)[1]).sum())
        if pairs > MOST_PAIRS:
            raise BadInput(
                f"--positives: {pairs:,} pairs of positives, more than the {MOST_PAIRS:,} that fit; use finer ids"
            )
        places, others = groups.of(np.arange(len(self.asking)))
        self.places, self.others = self.asking[places], self.asking[others]
        ends = self.places.astype(np.int32), self.others.astype(np.int32)
        self.values = np.stack([pair_values(pair, ends[0], ends[1]), pair_values(pair, ends[1], ends[0])])
        self.count = pair.rows
        self.in_nats = self.comparable = groups.most == 1
        super().__init__(mean_of_positives(pair.rows, self.places, self.values))
        ends = suspects.lower, suspects.higher
        known = (ids[ends[0]] == ids[ends[1]]) & asks[ends[0]] & asks[ends[1]]
        positives = None if suspects.groups is None else np.where(asks, np.unique(ids, return_inverse=True)[1], -1)
        self._unknown = SuspectPairs(ends[0][~known], ends[1][~known], suspects.groups, positives)
        # To be put back into the sums over all keys, each once: those that are listed, and those that share a group.
        group = group_numbers(np.full(pair.rows, -1) if suspects.groups is None else suspects.groups)
        known &= group[ends[0]] != group[ends[1]]
        mates = (group[self.places] == group[self.others]) & (self.places != self.others)
        rows, cols = SuspectPairs(ends[0][known], ends[1][known]).both_ways()
        self._known = (
            np.concatenate([rows, self.places[mates].astype(np.int32)]),
            np.concatenate([cols, self.others[mates].astype(np.int32)]),
        )
        self._known_values = np.stack([pair_values(pair, *self._known), pair_values(pair, *self._known[::-1])])

    def suspects_among(self, found: SuspectPairs) -> SuspectPairs:
        """Known positives are not suspected."""
        return self._unknown

    def keys(self, keys: AllKeys, temperature: float) -> AllKeys:
        """Known positives are put back."""
        masked = keys.masked_log_sums.copy()
        for sums, values in zip(masked, self._known_values, strict=True):
            np.logaddexp.at(sums, self._known[0], values / temperature)
        return replace(keys, masked_log_sums=np.minimum(masked, keys.log_sums))

    def rows(self, counted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Raises BadInput where none of them asks."""
        rows = counted[np.isin(counted, self.asking)]
        if len(rows) == 0:
            raise BadInput("--labels: no row with label 1 is in a batch that counts")
        return rows

    def in_order(self, perm: NDArray[np.int64], batch_size: int) -> OrderTerms:
        """With the mean similarity to the positives in the row's batch."""
        batch = inverse(perm) // batch_size
        together = batch[self.places] == batch[self.others]
        here = mean_of_positives(self.count, self.places[together], self.values[:, together])

        def losses(log_sums: NDArray[np.float64], rows: NDArray[np.int64], temperature: float, *, masked: bool) -> Any:
            return log_sums - here[:, rows] / temperature

        return losses


def mean_of_positives(rows: int, places: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(2, N) the mean of each row's values; 0 for rows without any."""
    counts = np.maximum(np.bincount(places, minlength=rows), 1)
    return np.stack([np.bincount(places, side, minlength=rows) / counts for side in values])
