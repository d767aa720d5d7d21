"""The losses a report knows, and what each makes of the sums over all keys and over a batch's keys."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.products.sums import SideSums
from gcbs_cli.products.suspects import SuspectPairs
from gcbs_cli.reports.in_batch import KeySet
from gcbs_cli.system.errors import BadInput

DEFAULT_LOSS_MARGIN = 0.2
"""Of the triplet loss, in units of similarity."""

EXPONENT_ROUNDOFF = 2.0**-22
"""What float32 exponentials and their sums can add to one log-sum-exp, relative to its magnitude in nats."""


class LossKind(StrEnum):
    """`infonce`: x→y; `symmetric`: mean of x→y and y→x (CLIP); `simclr`: NT-Xent over the 2N views; `bsc`: symmetric
    with several positives a row; `triplet`: with the hardest negative.
    """

    INFONCE = "infonce"
    SYMMETRIC = "symmetric"
    SIMCLR = "simclr"
    BSC = "bsc"
    TRIPLET = "triplet"


class QueueMode(StrEnum):
    """`moco`: the queue's keys are the only negatives, x→y; `xbm`: the batch's and the queue's."""

    MOCO = "moco"
    XBM = "xbm"


@dataclass(frozen=True)
class Loss:
    """A loss with or without a memory queue of the last `queue_batches` batches."""

    kind: LossKind
    queue_batches: int = 0
    queue_mode: QueueMode = QueueMode.XBM
    margin: float = DEFAULT_LOSS_MARGIN

    def __post_init__(self) -> None:
        if self.queue_batches < 0:
            raise BadInput(f"--queue {self.queue_batches}: expected a number of batches, 0 for none")
        if self.queue_batches and self.kind not in (LossKind.INFONCE, LossKind.SYMMETRIC):
            raise BadInput(f"--queue: a memory queue goes with --loss infonce or symmetric, not with {self.kind}")
        if not 0.0 <= self.margin <= 2.0:
            raise BadInput(f"--loss-margin {self.margin}: expected a difference of similarities, such as 0.2")

    @property
    def name(self) -> str:
        """`loss_kind` in the report."""
        return self.queue_mode.value if self.queue_batches else self.kind.value

    @property
    def has_own_terms(self) -> bool:
        """Whether it is more than a mean of log sums against one positive."""
        return self.kind in (LossKind.BSC, LossKind.TRIPLET)

    @property
    def keys(self) -> KeySet:
        """Which keys a row meets."""
        if self.queue_batches:
            return KeySet.QUEUE if self.queue_mode is QueueMode.MOCO else KeySet.BATCH_AND_QUEUE
        return KeySet.VIEWS if self.kind is LossKind.SIMCLR else KeySet.PAIRS

    @property
    def sides(self) -> tuple[int, ...]:
        """Directions over which the loss is a mean: 0 is x→y, 1 is y→x."""
        one_way = self.kind is LossKind.INFONCE or self.keys is KeySet.QUEUE
        return (0,) if one_way else (0, 1)

    def keys_in_all(self, rows: int) -> int:
        """Keys of one row in the global loss."""
        return 2 * rows - 1 if self.keys is KeySet.VIEWS else rows

    def oracle_negatives(self, rows: int, batch_size: int) -> int:
        """How many of its hardest negatives a row keeps in the oracle: as many as a full batch shows it."""
        negatives = {
            KeySet.PAIRS: batch_size - 1,
            KeySet.VIEWS: 2 * batch_size - 2,
            KeySet.QUEUE: batch_size * self.queue_batches,
            KeySet.BATCH_AND_QUEUE: batch_size * (1 + self.queue_batches) - 1,
        }[self.keys]
        return min(negatives, self.keys_in_all(rows) - 1)


@dataclass(frozen=True)
class AllKeys:
    """What the rows of a loss's sides meet among all keys, at one temperature.

    log_sums, masked_log_sums: (S, N); hardest: (S, N, K); diagonal: (N,) s_ii; count: keys of a row;
    rounding: how far a gap may be from the true one, in nats.
    """

    log_sums: NDArray[np.float64]
    masked_log_sums: NDArray[np.float64]
    hardest: NDArray[np.float32]
    diagonal: NDArray[np.float64]
    count: int
    rounding: float = 0.0

    @property
    def largest(self) -> NDArray[np.float64]:
        """(S, N) the largest similarity a row has with any key, its own positive included."""
        if self.hardest.shape[-1] == 0:
            return np.broadcast_to(self.diagonal, self.log_sums.shape)
        return np.maximum(self.hardest[:, :, 0], self.diagonal)


def tolerance(product_error: float, temperature: float) -> float:
    """How far two right computations of a gap may differ, in nats: two log-sum-exps of float32 products each."""
    largest = 1.0 / temperature + 30.0
    return 2.0 * (product_error / temperature + EXPONENT_ROUNDOFF * largest)


def merge_sides(across: SideSums, same_side: SideSums | None) -> SideSums:
    """Keys of the other side, and of the own side where the loss has them, as one set."""
    if same_side is None:
        return across
    both = np.concatenate([across.hardest, same_side.hardest], axis=1)
    return SideSums(
        np.logaddexp(across.log_sums, same_side.log_sums),
        np.logaddexp(across.masked, same_side.masked),
        np.ascontiguousarray(np.sort(both, axis=1)[:, ::-1]),
        np.maximum(across.hardest_unsuspected, same_side.hardest_unsuspected),
    )


def outwards(bound: float, gap: float, rounding: float) -> float:
    """The bound, or the gap where it is no more than its rounding above: the true gap is never above the true bound."""
    return gap if bound < gap <= bound + rounding else bound


def between(
    positive: NDArray[np.float64], batch: NDArray[np.float64], total: NDArray[np.float64], whole: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """A batch's sums, kept between the positive alone and all keys, and equal to these where the batch is `whole`.

    So it is by definition; two roundings of one similarity, divided by a small temperature, could say otherwise.
    """
    return np.where(whole, total, np.clip(batch, positive, total))


class LossTerms:
    """What a loss makes of the sums over all keys and over a batch's keys: here −s_ii / τ + log Σ exp(s_ij / τ).

    Losses that are more than a mean of log sums against one positive override what differs.
    """

    in_nats = True
    """Whether it is a cross-entropy against one positive, so that log k − L_train bounds mutual information."""
    comparable = True
    """Whether the oracle bounds what a plan can close."""
    bounded = True
    """Whether the translation and the log-sum-exp bound hold."""

    def __init__(self, positives: NDArray[np.float64]) -> None:
        """positives: (N,) s_ii."""
        self.positives = positives

    def suspects_among(self, found: SuspectPairs) -> SuspectPairs:
        """Those of the suspected pairs that this loss takes for negatives."""
        return found

    def keys(self, keys: AllKeys, temperature: float) -> AllKeys:
        """The sums over all keys, of which only `suspects_among` are left out in `masked_log_sums`."""
        return keys

    def rows(self, counted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the counted rows that have a loss."""
        return counted

    def everything(self, log_sums: NDArray[np.float64], temperature: float, *, masked: bool) -> NDArray[np.float64]:
        """(S, N) the loss of each row and direction among all keys, or without suspected pairs where `masked`.

        log_sums: (S, N), with or without suspected pairs likewise.
        """
        return log_sums - self.positives / temperature

    def in_order(self, perm: NDArray[np.int64], batch_size: int) -> "OrderTerms":
        """The loss in the batches of an order, from (S, n) log sums of `rows` (n,) over the keys that they see."""

        def losses(log_sums: NDArray[np.float64], rows: NDArray[np.int64], temperature: float, *, masked: bool) -> Any:
            return log_sums - self.positives[rows] / temperature

        return losses

    def oracle(self, keys: AllKeys, negatives: int, temperature: float) -> NDArray[np.float64]:
        """(S, N) the gap of each row if it saw its own hardest negatives: no partition of the rows reaches the mean."""
        if negatives == keys.count - 1:
            return np.zeros_like(keys.log_sums)
        hard = keys.hardest[:, :, :negatives].astype(np.float64) / temperature
        positive = np.broadcast_to(keys.diagonal / temperature, keys.log_sums.shape)
        largest = np.maximum(positive, hard[:, :, 0]) if negatives else positive
        with np.errstate(divide="ignore"):
            seen = largest + np.log(np.exp(positive - largest) + np.exp(hard - largest[..., None]).sum(axis=-1))
        return np.maximum(keys.log_sums - seen, 0.0)


class OrderTerms(Protocol):
    """The losses (S, n) of rows in the batches of one order."""

    def __call__(
        self, log_sums: NDArray[np.float64], rows: NDArray[np.int64], temperature: float, *, masked: bool
    ) -> NDArray[np.float64]: ...
