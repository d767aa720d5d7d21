"""What changes from epoch to epoch, and whether planning again still pays."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from gcbs_cli.comparison.history.files import HistoryInput
from gcbs_cli.system.arrays import inverse
from gcbs_cli.system.errors import BadInput

LEAST_SHARE_OF_BEST = 0.25
"""Planning has stopped paying when it closes less than this share of what it closed at best."""
LEAST_NATS = 0.01
SAME_PLAN = 0.9
"""Recurring share from which on an older plan would have done."""
NOISE = 3.0
"""Standard deviations of the random trials below which a difference is none."""


class Epoch(BaseModel):
    """One epoch. `closed`: nats of the gap that the plan closes; `recurring`: share of the in-batch pairs of the plan
    before that share a batch again; `threshold_drift`: change of t since the epoch before; `plan_seconds` from the
    manifest. None where it is not known.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    n: int
    batch_size: int
    temperature: float
    loss_global: float
    loss_train: float | None
    loss_random: float
    gap: float | None
    gap_random: float
    reduction: float | None
    masked_reduction: float | None
    closed: float | None
    threshold: float
    threshold_drift: float | None
    recurring: float | None
    plan_seconds: float | None


class History(BaseModel):
    """All epochs. `pays_until`: the last epoch whose plan paid, None without plans; `verdict`: that in words."""

    model_config = ConfigDict(frozen=True)

    epochs: list[Epoch]
    pays_until: str | None
    verdict: str


def make_history(inputs: Sequence[HistoryInput]) -> History:
    """Put the epochs side by side. Raises BadInput where they cannot be compared: another k, temperature or loss."""
    first = inputs[0].report
    for item in inputs[1:]:
        for figure in ("batch_size", "temperature", "loss_kind"):
            if getattr(item.report, figure) != getattr(first, figure):
                raise BadInput(
                    f"{item.name}: found {figure.replace('_', ' ')} {getattr(item.report, figure)}, expected "
                    f"{getattr(first, figure)} as in {inputs[0].name}; epochs are compared under one loss"
                )
    before: list[HistoryInput | None] = [None, *inputs[:-1]]
    epochs = [_epoch(item, previous) for item, previous in zip(inputs, before, strict=True)]
    pays_until, verdict = _verdict(epochs, [item.report.gap.random_std for item in inputs])
    return History(epochs=epochs, pays_until=pays_until, verdict=verdict)


def _epoch(item: HistoryInput, previous: HistoryInput | None) -> Epoch:
    report, gap = item.report, item.report.gap
    recurring = None
    if previous is not None and previous.perm is not None and item.perm is not None:
        recurring = recurring_pairs(previous.perm, item.perm, report.batch_size)
    return Epoch(
        name=item.name,
        n=report.n,
        batch_size=report.batch_size,
        temperature=report.temperature,
        loss_global=report.loss.global_,
        loss_train=report.loss.plan,
        loss_random=report.loss.random_mean,
        gap=gap.plan,
        gap_random=gap.random_mean,
        reduction=gap.reduction,
        masked_reduction=gap.masked.reduction,
        closed=None if gap.plan is None else gap.random_mean - gap.plan,
        threshold=report.graph.threshold,
        threshold_drift=None if previous is None else report.graph.threshold - previous.report.graph.threshold,
        recurring=recurring,
        plan_seconds=None if item.entry is None else sum(item.entry.timings.values()),
    )


def recurring_pairs(old: NDArray[np.int64], new: NDArray[np.int64], batch_size: int) -> float | None:
    """The share of the pairs that share a batch of `old` and share one of `new` too; None for other numbers of rows."""
    if len(old) != len(new):
        return None
    batch = inverse(new) // batch_size
    old_batch = np.arange(len(old)) // batch_size
    _, together = np.unique(old_batch * (len(old) // batch_size + 1) + batch[old], return_counts=True)
    _, sizes = np.unique(old_batch, return_counts=True)
    pairs = int((sizes * (sizes - 1)).sum())
    return None if pairs == 0 else float((together * (together - 1)).sum() / pairs)


def _verdict(epochs: Sequence[Epoch], deviations: Sequence[float]) -> tuple[str | None, str]:
    """The last epoch that paid and a sentence; see `LEAST_SHARE_OF_BEST`, `LEAST_NATS` and `NOISE`."""
    closed = [epoch.closed for epoch in epochs]
    if all(value is None for value in closed):
        return None, "The reports are of no plan: give them one with gcbs report -p."
    best = max(value for value in closed if value is not None)
    pays = [
        value is not None and value > max(LEAST_SHARE_OF_BEST * best, LEAST_NATS, NOISE * deviation)
        for value, deviation in zip(closed, deviations, strict=True)
    ]
    if not any(pays):
        return None, "Planning does not pay here: no plan does better than random batches by more than their spread."
    last = max(number for number, good in enumerate(pays) if good)
    if last < len(epochs) - 1:
        stopped = epochs[last + 1]
        return epochs[last].name, (
            f"Planning has stopped paying: since {stopped.name} a plan closes {stopped.closed or 0.0:.3f} nats of the "
            f"gap or less than a quarter of the best ({best:.3f}). Random batches do as well from there."
        )
    recurring = epochs[-1].recurring
    if recurring is not None and recurring >= SAME_PLAN:
        return epochs[last].name, (
            f"Planning still pays ({epochs[-1].closed or 0.0:.3f} nats), but the plans hardly change: {recurring:.0%} "
            "of the pairs of the last one recur, so planning every second epoch would do."
        )
    return epochs[
        last
    ].name, f"Planning still pays: the last plan closes {epochs[-1].closed or 0.0:.3f} nats of the gap."
