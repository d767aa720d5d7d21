"""What changes from epoch to epoch, and whether planning again still pays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from gcbs_cli.comparison.history.files import HistoryInput
from gcbs_cli.reports.figures import FIGURES, shown_in
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.system.arrays import inverse
from gcbs_cli.system.errors import BadInput

LEAST_SHARE_OF_BEST = 0.25
"""A plan pays if it closes at least this share of what the best one closes."""
LEAST_NATS = 0.01
SAME_PLAN = 0.9
"""Share of recurring pairs from which the previous plan would have done."""
NOISE = 3.0
"""A difference of fewer standard deviations of the random orders counts as none."""


class Epoch(BaseModel):
    """One epoch. What is not known is None.

    closed: how much of the gap the plan closes without suspected false negatives, in nats. threshold_drift: change of
    the threshold since the previous epoch. recurring: share of the previous plan's in-batch pairs that share a batch
    again. plan_seconds: from the manifest.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    report: GapReport
    closed: float | None
    threshold_drift: float | None
    recurring: float | None
    plan_seconds: float | None


class History(BaseModel):
    """All epochs. pays_until: the last epoch whose plan paid, None if none did; verdict: the same in a sentence."""

    model_config = ConfigDict(frozen=True)

    epochs: list[Epoch]
    pays_until: str | None
    verdict: str


@dataclass(frozen=True)
class Course:
    """One figure over the epochs; `text` writes a value of it."""

    words: str
    heading: str
    text: Callable[[float | None], str]
    values: Sequence[float | None]


SHOWN = [*(figure.path for figure in shown_in("history")), "recurring", "plan_seconds"]
"""The figures of a table."""


def courses(epochs: Sequence[Epoch]) -> dict[str, Course]:
    """Every figure of the reports over the epochs by its path, and the two that only a history has."""
    found = {
        figure.path: Course(
            figure.words,
            figure.heading or figure.words,
            figure.text,
            [epoch.report.at(figure.path) for epoch in epochs],
        )
        for figure in FIGURES
    }
    recurring, seconds = [epoch.recurring for epoch in epochs], [epoch.plan_seconds for epoch in epochs]
    found["recurring"] = Course("pairs that recur", "recur", lambda value: _text(value, ".0%"), recurring)
    found["plan_seconds"] = Course("seconds", "plan s", lambda value: _text(value, ".1f"), seconds)
    return found


def _text(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def make_history(inputs: Sequence[HistoryInput]) -> History:
    """Put the epochs side by side. Raises BadInput if their batch sizes, temperatures or losses differ."""
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
    pays_until, verdict = _verdict(epochs)
    return History(epochs=epochs, pays_until=pays_until, verdict=verdict)


def _epoch(item: HistoryInput, previous: HistoryInput | None) -> Epoch:
    report, gap = item.report, item.report.gap.masked
    recurring = None
    if previous is not None and previous.perm is not None and item.perm is not None:
        recurring = recurring_pairs(previous.perm, item.perm, report.batch_size)
    return Epoch(
        name=item.name,
        report=report,
        closed=None if gap.plan is None else gap.random_mean - gap.plan,
        threshold_drift=None if previous is None else report.graph.threshold - previous.report.graph.threshold,
        recurring=recurring,
        plan_seconds=None if item.entry is None else sum(item.entry.timings.values()),
    )


def recurring_pairs(old: NDArray[np.int64], new: NDArray[np.int64], batch_size: int) -> float | None:
    """Share of the pairs in batches of `old` that share a batch of `new` too; None if the numbers of rows differ."""
    if len(old) != len(new):
        return None
    batch = inverse(new) // batch_size
    old_batch = np.arange(len(old)) // batch_size
    _, together = np.unique(old_batch * (len(old) // batch_size + 1) + batch[old], return_counts=True)
    _, sizes = np.unique(old_batch, return_counts=True)
    pairs = int((sizes * (sizes - 1)).sum())
    return None if pairs == 0 else float((together * (together - 1)).sum() / pairs)


def _verdict(epochs: Sequence[Epoch]) -> tuple[str | None, str]:
    """The last epoch whose plan paid, and a sentence; see `LEAST_SHARE_OF_BEST`, `LEAST_NATS` and `NOISE`."""
    best = max((epoch.closed for epoch in epochs if epoch.closed is not None), default=None)
    if best is None:
        return None, "These reports are not about plans; name the plan with gcbs report -p."
    paying = [number for number, epoch in enumerate(epochs) if _pays(epoch, best)]
    if not paying:
        return None, (
            "Planning does not pay here: without suspected false negatives, no plan beats random batches by more than "
            "their spread."
        )
    name, closed, recurring = epochs[paying[-1]].name, epochs[-1].closed or 0.0, epochs[-1].recurring
    if paying[-1] < len(epochs) - 1:
        return name, (
            f"Planning has stopped paying: since {epochs[paying[-1] + 1].name}, plans hardly beat random batches. The "
            f"last one closes {closed:.3f} nats of the gap without suspected false negatives, the best {best:.3f}."
        )
    if recurring is not None and recurring >= SAME_PLAN:
        return name, (
            f"Planning still pays ({closed:.3f} nats without suspected false negatives), but the plans hardly change: "
            f"{recurring:.0%} of the pairs that shared a batch share one again. Planning every second epoch would do."
        )
    return name, (
        f"Planning still pays: the last plan closes {closed:.3f} nats of the gap without suspected false negatives."
    )


def _pays(epoch: Epoch, best: float) -> bool:
    spread = epoch.report.gap.masked.random_std or epoch.report.gap.random_std or 0.0
    return epoch.closed is not None and epoch.closed > max(LEAST_SHARE_OF_BEST * best, LEAST_NATS, NOISE * spread)
