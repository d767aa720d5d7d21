"""What happens to finished batches: groups mixed into batches, batches shuffled or put in order of difficulty."""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.suspects import SuspectPairs
from gcbs_cli.reports.in_batch import batch_sums
from gcbs_cli.settings.plan import BatchOrderSettings


def mix_groups(perm: NDArray[np.int64], group_size: int, seed: int) -> NDArray[np.int64]:
    """The same groups of `group_size` consecutive rows in random order, the short one last.

    Batches of several groups are hard within each group and random between them: group size 1 is a random order, and
    group size k leaves the plan as hard as it was.
    """
    return _reorder(perm, group_size, np.random.default_rng([seed, 0x6200]).permutation(len(perm) // group_size))


def order_batches(
    perm: NDArray[np.int64],
    pair: PairedRows,
    batch_size: int,
    temperature: float,
    settings: BatchOrderSettings,
    seed: int,
) -> NDArray[np.int64]:
    """Full batches in random order, or by their mean training loss; as they are where nothing is asked."""
    if settings.shuffle:
        return shuffle_batches(perm, batch_size, seed)
    if settings.curriculum is not None:
        easy = settings.curriculum == "easy-first"
        losses = batch_losses(perm, pair, batch_size, temperature)[: len(perm) // batch_size]
        return _reorder(perm, batch_size, np.argsort(losses if easy else -losses, kind="stable"))
    return perm


def shuffle_batches(perm: NDArray[np.int64], batch_size: int, seed: int) -> NDArray[np.int64]:
    """Full batches in random order, the short one last."""
    return _reorder(perm, batch_size, np.random.default_rng([seed, 0x5F1E]).permutation(len(perm) // batch_size))


def batch_losses(perm: NDArray[np.int64], pair: PairedRows, batch_size: int, temperature: float) -> NDArray[np.float64]:
    """(B,) the mean symmetric training loss of each batch, in nats."""
    nobody = SuspectPairs(np.empty(0, np.int32), np.empty(0, np.int32))
    sums = batch_sums(pair, perm, batch_size, [temperature], nobody).log_sums[:, 0].mean(axis=0)
    losses = (sums - pair.diagonal() / temperature)[perm]
    return np.add.reduceat(losses, np.arange(0, len(perm), batch_size)) / np.bincount(
        np.arange(len(perm)) // batch_size
    )


def _reorder(perm: NDArray[np.int64], size: int, order: NDArray[np.int64]) -> NDArray[np.int64]:
    full = len(order) * size
    return np.concatenate([perm[:full].reshape(-1, size)[order].reshape(-1), perm[full:]])
