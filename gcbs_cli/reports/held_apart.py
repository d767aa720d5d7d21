"""Pairs that a plan can be asked to hold apart, counted in any order: the hardest by rank, and exact duplicates."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.hard_pairs import ranked_entries
from gcbs_cli.orders.keeping_apart import duplicate_labels
from gcbs_cli.products.backend import Backend
from gcbs_cli.products.suspects import SuspectPairs, pairs_of
from gcbs_cli.products.top_candidates import find_candidates
from gcbs_cli.reports.schema import HeldApart
from gcbs_cli.system.progress import Progress


@dataclass(frozen=True)
class PairsInside:
    """Pairs inside the batches of one order; None where they were not asked for."""

    top: int | None
    duplicates: int | None


@dataclass(frozen=True)
class PairsToHoldApart:
    """`top`: the unordered pairs of a row with one of its p hardest columns; `labels`: (2, N) a number >= 0 for rows
    of equal x, and of equal y, −1 for rows that are alone. None where not asked for.
    """

    top: SuspectPairs | None
    labels: NDArray[np.int64] | None

    def inside(self, batch_of_row: NDArray[np.int64]) -> PairsInside:
        """How many share a batch; `batch_of_row`: (N,)."""
        return PairsInside(
            None if self.top is None else len(self.top.in_batches(batch_of_row)),
            None if self.labels is None else _equal_pairs(self.labels, batch_of_row),
        )


def pairs_to_hold_apart(
    pair: PairedRows,
    fn_top: int,
    duplicates: bool,
    backend: Backend,
    *,
    seed: int,
    tile_rows: int | None,
    watcher: Progress,
) -> PairsToHoldApart:
    """What was asked for; the p hardest columns of each row, as a plan finds them, take a pass of their own."""
    top = None
    if fn_top:
        found = find_candidates(pair, None, fn_top, backend, seed=seed, tile_rows=tile_rows, progress=watcher.progress)
        assert found.x is not None
        top = pairs_of(*ranked_entries(found.x, 0, fn_top), pair.rows)
    labels = np.stack([duplicate_labels(pair.x), duplicate_labels(pair.y)]) if duplicates else None
    return PairsToHoldApart(top, labels)


def held_apart(
    name: str, everything: PairsInside, plan: PairsInside | None, trials: list[PairsInside]
) -> HeldApart | None:
    """The figures of `top` or `duplicates`; None where they were not asked for."""
    total = getattr(everything, name)
    if total is None:
        return None
    return HeldApart(
        total=total,
        plan=None if plan is None else getattr(plan, name),
        random=float(np.mean([getattr(trial, name) for trial in trials])),
    )


def _equal_pairs(labels: NDArray[np.int64], batch_of_row: NDArray[np.int64]) -> int:
    """Pairs in one batch with equal x or equal y, counted without listing them: a million equal rows make 5 · 10¹¹."""
    x, y = labels
    both = np.where((x >= 0) & (y >= 0), x * (int(y.max()) + 1) + y, -1)
    return _mates(x, batch_of_row) + _mates(y, batch_of_row) - _mates(both, batch_of_row)


def _mates(line: NDArray[np.int64], batch_of_row: NDArray[np.int64]) -> int:
    """Pairs in one batch with the same number >= 0."""
    labelled = np.flatnonzero(line >= 0)
    if len(labelled) == 0:
        return 0
    numbers = np.unique(line[labelled], return_inverse=True)[1].reshape(-1)
    keys = batch_of_row[labelled].astype(np.int64) * (int(numbers.max()) + 1) + numbers
    counts = np.unique(keys, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())
