"""Check that the loss a trainer reports is the one that the planned batches should give."""

import logging
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.arrays import open_arrays
from gcbs_cli.products.suspects import SuspectPairs
from gcbs_cli.reports.in_batch import batch_sums
from gcbs_cli.settings.plan import DEFAULT_TEMPERATURE
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.plan_source import PlanWarning
from gcbs_cli.trainers.sampler import sampler_of

TOLERANCE = 1e-3
"""Nats by which a first step may differ, because of float32 sums and the four decimals of a trainer's log."""
DROPOUT_TOLERANCE = 0.25
"""The same as a share of the loss, for a model that trains with dropout, which makes the check much less sharp."""

Embed = Callable[[NDArray[np.int64]], tuple[Any, Any]]
"""Takes row numbers (n,), returns the current model's embeddings of both sides, (n, d) each, without dropout."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Comparison:
    """One step's loss, as the trainer reported it and as the plan predicts it, in nats."""

    step: int
    reported: float
    expected: float
    agrees: bool


class LossCheck:
    """Compares the losses of an epoch's first steps with those that `gcbs report` gives for their batches, and warns.

    It detects a shuffled order, batches cut elsewhere, neighbours that went to different ranks, another temperature,
    and a loss that gathers although the plan assumes that it does not.

    planned: the sampler, or the object that makes it (`PlannedBatches`, a trainer, a data module).
    embeddings: both sides of all rows, (x, y), from the model before the first step, so that only that step can be
    checked; or a function from row numbers to both sides, called before each step to check.
    tolerance: nats, or with `relative` a share of the expected loss or of one nat, whichever is more. A model with
    dropout needs that: one had a training loss of 0.056 where its embeddings give 0.015.
    """

    def __init__(
        self,
        planned: Any,
        embeddings: "Embed | tuple[Any, Any]",
        *,
        temperature: float = DEFAULT_TEMPERATURE,
        loss: str = "symmetric",
        steps: int = 1,
        tolerance: float = TOLERANCE,
        relative: bool = False,
    ) -> None:
        if steps > 1 and not callable(embeddings):
            raise BadInput(f"steps {steps}: the model changes after the first step; give a function that embeds rows")
        self._planned, self._temperature, self._loss = planned, temperature, loss
        self._embed = embeddings if callable(embeddings) else _rows_of(*embeddings)
        self.steps, self.tolerance, self.relative = steps, tolerance, relative
        self.comparisons: list[Comparison] = []

    def wants(self, step: int, losses_a_step: int = 1) -> bool:
        """Whether to check this step: it is among the first and within the first epoch.

        losses_a_step: how many losses one update accumulates.
        """
        return step < self.steps and (step + 1) * losses_a_step <= sampler_of(self._planned).sharding.steps

    def expect(self, step: int = 0, rank: int | None = None) -> float:
        """Return the loss of a step of this epoch in nats, averaged over ranks or of one; call it before the step."""
        losses = [
            batch_loss(*self._embed(rows), temperature=self._temperature, loss=self._loss)
            for rows in sampler_of(self._planned).step_rows(step, rank)
        ]
        return float(np.mean(losses))

    def compare(self, step: int, reported: float, expected: float) -> Comparison:
        """Compare a reported loss with the expected one, and warn (PlanWarning) if they differ."""
        limit = self.tolerance * (max(expected, 1.0) if self.relative else 1.0)
        found = Comparison(step, reported, expected, abs(reported - expected) <= limit)
        self.comparisons.append(found)
        if found.agrees:
            logger.info("step %d: the loss is that of the planned batch (%.4f)", step, expected)
        else:
            warnings.warn(
                f"step {step}: the trainer's loss is {reported:.4f}, the planned batch's is {expected:.4f} nats; "
                "the batches that reach the loss are not the planned ones, or its temperature or direction differs",
                PlanWarning,
                stacklevel=3,
            )
        return found

    def observe(self, step: int, reported: float, rank: int | None = None) -> Comparison | None:
        """Do `expect` and `compare` in one call, for a model that has not changed since the step began."""
        return self.compare(step, reported, self.expect(step, rank)) if self.wants(step) else None


def batch_loss(x: Any, y: Any, *, temperature: float = DEFAULT_TEMPERATURE, loss: str = "symmetric") -> float:
    """The loss of one batch, in nats, as `gcbs report` counts it. x, y: (n, d) embeddings of its rows.

    loss: infonce (x→y), symmetric or simclr. Raises BadInput for arrays or a loss that do not fit.
    """
    pair = open_arrays(x, y).read()
    kind = ReportSettings(loss=[loss]).losses[0]  # type: ignore[arg-type]
    sums = batch_sums(pair, np.arange(pair.rows), pair.rows, [temperature], SuspectPairs.none(), kind)
    return float((sums.log_sums[0, 0] - pair.diagonal() / temperature).mean())


def has_dropout(modules: Iterable[Any]) -> bool:
    """Whether a torch model (given its `modules()`) uses dropout in training."""
    return any("Dropout" in type(module).__name__ and getattr(module, "p", 0) > 0 for module in modules)


def _rows_of(x: Any, y: Any) -> Embed:
    return lambda rows: (x[rows], y[rows])
