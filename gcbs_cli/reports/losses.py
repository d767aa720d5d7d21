"""The losses a report knows, and what each makes of the sums over all keys and over a batch's keys."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.products.sums import SideSums
from gcbs_cli.products.suspects import SuspectPairs

EXPONENT_ROUNDOFF = 2.0**-22
"""What float32 exponentials and their sums can add to one log-sum-exp, relative to its magnitude in nats."""


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
