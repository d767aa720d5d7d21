"""Check that the loss a trainer reports is the one that the planned batches should give."""

import logging
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from gcbs_cli.data.arrays import open_arrays
from gcbs_cli.products.suspects import SuspectPairs
from gcbs_cli.reports.in_batch import batch_sums
from gcbs_cli.settings.plan import DEFAULT_TEMPERATURE
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.trainers.plan_source import PlanWarning
from gcbs_cli.trainers.planner import Planner
from gcbs_cli.trainers.sampler import PlannedBatchSampler, place

STEPS = 2
"""How many of the first losses are checked."""
TOLERANCE = 1e-3
"""By which they may differ in float32: a share of the loss, or of one nat if that is more."""
HALF_TOLERANCE = 0.05
"""The same in 16 bits."""
DROPOUT_TOLERANCE = 0.25
"""The same where the reported loss was computed with dropout, which makes the check much less sharp."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Comparison:
    """One step's loss, as the trainer reported it and as the plan predicts it, in nats, both the mean over ranks."""

    step: int
    reported: float
    expected: float
    agrees: bool


class LossCheck:
    """Compares the first losses with those that `gcbs report` gives for the planned batches, and warns.

    It detects a shuffled order, batches cut elsewhere, neighbours that went to different ranks, another temperature,
    and a loss that gathers although the plan assumes that it does not. tolerance: see `TOLERANCE`.
    """

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        self.tolerance = tolerance
        self.comparisons: list[Comparison] = []
        self.over = False
        """Nothing more is checked: in a run that resumes, or where the plan cannot say what the loss should be."""
        self._handed: list[tuple[Planner, Ints]] = []

    def watch(self, sampler: PlannedBatchSampler, planner: Planner) -> None:
        """Note the rows of the first losses, in the order in which a loader asks the samplers for them."""

        def note(sampler: PlannedBatchSampler, step: int) -> None:
            if len(self._handed) < STEPS:
                self._handed.append((planner, sampler.step_rows(step, sampler.rank)[0]))

        sampler.on_batch = note

    @property
    def due(self) -> Planner | None:
        """Whose batch the next loss is of, if it is to be checked."""
        step = len(self.comparisons)
        return None if self.over or step >= len(self._handed) else self._handed[step][0]

    def compare(self, reported: float) -> None:
        """Compare this rank's next loss with the one of its rows by the model of this moment, on every rank at once."""
        step = len(self.comparisons)
        planner, rows = self._handed[step]
        asked, embedder = planner.asked, planner.embedder
        own = batch_loss(*embedder.rows(rows), temperature=asked.temperature, loss=asked.loss_kind)
        reported, expected = embedder.mean([reported, own])
        agrees = abs(reported - expected) <= self.tolerance * max(expected, 1.0)
        found = Comparison(step, reported, expected, agrees)
        self.comparisons.append(found)
        if found.agrees:
            logger.info("step %d: the loss is that of the planned batch (%.4f)", found.step, expected)
        elif place()[0] == 0:
            warnings.warn(
                f"step {found.step}: the trainer's loss is {reported:.4f}, the planned batch's is {expected:.4f} nats; "
                "the batches that reach the loss are not the planned ones, or its temperature or direction differs",
                PlanWarning,
                stacklevel=3,
            )


def batch_loss(x: Any, y: Any, *, temperature: float = DEFAULT_TEMPERATURE, loss: str = "symmetric") -> float:
    """The loss of one batch, in nats, as `gcbs report` counts it. x, y: (n, d) embeddings of its rows.

    loss: infonce (x→y), symmetric or simclr. Raises BadInput for arrays or a loss that do not fit.
    """
    pair = open_arrays(x, y).read()
    kind = ReportSettings(loss=[loss]).losses[0]  # type: ignore[arg-type]
    sums = batch_sums(pair, np.arange(pair.rows), pair.rows, [temperature], SuspectPairs.none(), kind)
    return float((sums.log_sums[0, 0] - pair.diagonal() / temperature).mean())


def has_dropout(model: Any) -> bool:
    """Whether a torch model uses dropout in training."""
    return any("Dropout" in type(module).__name__ and getattr(module, "p", 0) > 0 for module in model.modules())
