"""Plan from the current model's embeddings, in the training process, and check that its loss is that of the plan."""

import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize

from gcbs_cli.api import plan, report
from gcbs_cli.reports.batch_loss import batch_loss
from gcbs_cli.settings.training import TrainingSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.embedding import RowEmbedder, patient_group
from gcbs_cli.trainers.plan_source import PlanWarning
from gcbs_cli.trainers.sampler import PlannedBatchSampler, of_ranks, place

Log = Callable[[dict[str, float]], object]

TRIALS = 3
"""Random orders that a plan is compared with."""

logger = logging.getLogger(__name__)


class Planner:
    """Makes a sampler's plans: `sampler.replan = planner`.

    On every rank at once it embeds the rows that are left (each rank a share), plans them on rank 0, measures what the
    plan is worth, and logs the figures and what they cost. asked: with the temperature and the kind of the loss that is
    trained. name: of the data set, where there are several. labels: (N,) an id for each row, rows with the same one
    never share a batch. `history` holds what was logged.
    """

    name = ""
    labels: Ints | None = None

    def __init__(self, embedder: RowEmbedder, asked: TrainingSettings, log: Log) -> None:
        self.embedder, self.asked, self._log = embedder, asked, log
        self.history: list[dict[str, float]] = []

    def __call__(self, sampler: PlannedBatchSampler, step: int, rows: Ints) -> Ints:
        """Return these rows in the order of a new plan."""
        if sampler.epoch == step == 0 and self.asked.first == "random":
            return np.random.default_rng(sampler.seed).permutation(rows)
        rows, started = np.sort(rows), time.perf_counter()
        sides = self.embedder.all_rows(rows)
        embedded = time.perf_counter()
        order, figures = self.embedder.share(lambda: self._plan(sampler, rows, sides))
        spent = {"embed_seconds": embedded - started, "plan_seconds": time.perf_counter() - embedded}
        prefix = f"gcbs/{self.name}/" if self.name else "gcbs/"
        logs = {prefix + name: value for name, value in {**figures, **spent}.items()}
        self.history.append(logs)
        logger.info("epoch %d, step %d: %s", sampler.epoch, step, logs)
        self._log(dict(logs))
        return rows[order]

    def _plan(self, sampler: PlannedBatchSampler, rows: Ints, sides: Any) -> tuple[Ints, dict[str, float]]:
        x, y = sides
        asked, size = self.asked, sampler.loss_batch_size
        groups = None if self.labels is None else self.labels[rows]
        perm = plan(x, y, groups=groups, **asked.plan_settings(size)).perm
        found = report(
            x,
            y,
            perm,
            batch_size=size,
            temperature=asked.temperature,
            loss=asked.loss_kind,
            drop_last=sampler.drop_last,
            trials=TRIALS,
        )
        figures = {
            "L_global": found.loss.global_,
            "L_train": found.loss.plan,
            "gap": found.gap.plan,
            "reduction": float("nan") if found.gap.reduction is None else found.gap.reduction,
        }
        return perm, figures


def check_plannable(dataset: Any) -> None:
    """Raises BadInput for a data set whose rows have no numbers, such as a stream."""
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise BadInput(
            f"{type(dataset).__name__}: found a stream, expected a data set with a length, as a plan orders rows by "
            "number; load it whole, or write it in plan order with gcbs apply"
        )


def batch_size_of(plan: Any, asked: TrainingSettings, trained: int, said: str) -> int:
    """k of the trainer, checked against what was asked for. Raises BadInput.

    trained: the pairs that one loss of the trainer sees; said: the setting of the trainer that says so.
    """
    given = asked.batch_size if "batch_size" in asked.model_fields_set else None
    if isinstance(plan, np.ndarray | list | tuple) and given is None:
        raise BadInput("plan: an order of rows does not say its batch size; give batch_size, or the path of a plan")
    if trained < 2:
        raise BadInput(
            f"{said}: found one pair per loss, expected 2 or more; a data set of ready batches cannot be planned"
        )
    if given not in (None, trained):
        raise BadInput(f"batch_size {given}: {said} makes losses of {trained} pairs; make the two equal")
    return trained


STEPS = 2
"""How many of the first losses are checked."""
TOLERANCE = 1e-3
"""By which they may differ in float32: a share of the loss, or of one nat if that is more."""
HALF_TOLERANCE = 0.05
"""The same in 16 bits."""
DROPOUT_TOLERANCE = 0.25
"""The same where the reported loss was computed with dropout, which makes the check much less sharp."""


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
    and a loss that gathers although the plan assumes that it does not. half: in 16 bits; dropout: the reported loss was
    computed with it.
    """

    def __init__(self, *, half: bool = False, dropout: bool = False) -> None:
        self._tolerance = DROPOUT_TOLERANCE if dropout else HALF_TOLERANCE if half else TOLERANCE
        self.comparisons: list[Comparison] = []
        self.over = False
        """Nothing more is checked: in a run that resumes, or where the plan cannot say what the loss should be."""
        self._handed: list[tuple[Planner, Ints]] = []

    def note(self, planner: Planner, sampler: PlannedBatchSampler, step: int) -> None:
        """Note the rows of the first losses, in the order in which a loader asks the samplers for them."""
        if len(self._handed) < STEPS:
            self._handed.append((planner, sampler.step_rows(step)))

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
        x, y = (normalize(torch.from_numpy(side)) for side in embedder.rows(rows))
        own = float(batch_loss(x, y, asked.temperature, asked.loss_kind))
        reported, expected = np.mean(of_ranks([reported, own], patient_group()), axis=0).tolist()
        agrees = abs(reported - expected) <= self._tolerance * max(expected, 1.0)
        self.comparisons.append(Comparison(step, reported, expected, agrees))
        if agrees:
            logger.info("step %d: the loss is that of the planned batch (%.4f)", step, expected)
        elif place()[0] == 0:
            warnings.warn(
                f"step {step}: the trainer's loss is {reported:.4f}, the planned batch's is {expected:.4f} nats; "
                "the batches that reach the loss are not the planned ones, or its temperature or direction differs",
                PlanWarning,
                stacklevel=3,
            )


def has_dropout(model: Any) -> bool:
    """Whether a torch model uses dropout in training."""
    return any("Dropout" in type(module).__name__ and getattr(module, "p", 0) > 0 for module in model.modules())
