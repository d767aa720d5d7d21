"""What a loss with terms of its own must tell a report, beside the sums that all losses share."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.reports.in_batch import BatchSums
from gcbs_cli.reports.losses import AllKeys, LossValues


class OrderTerms(Protocol):
    """The loss's terms in the batches of one order."""

    def values(
        self, keys: AllKeys, sums: BatchSums, number: int, temperature: float, kept: NDArray[np.int64]
    ) -> LossValues:
        """The figures at one temperature, `number` its place in the sums; `kept`: rows that are counted."""
        ...


class RowTerms(Protocol):
    """A loss with terms of its own, over all pairs."""

    @property
    def in_nats(self) -> bool:
        """Whether it is a cross-entropy against one positive, so that log k − L_train bounds mutual information."""
        ...

    @property
    def comparable(self) -> bool:
        """Whether the oracle bounds what a plan can close."""
        ...

    def everything(self, keys: AllKeys, temperature: float) -> float:
        """L_global over all rows."""
        ...

    def oracle(self, keys: AllKeys, negatives: int, temperature: float) -> float:
        """The gap if every row saw its own hardest negatives."""
        ...

    def of_order(self, perm: NDArray[np.int64], batch_size: int) -> OrderTerms:
        """The terms in the batches of an order."""
        ...
