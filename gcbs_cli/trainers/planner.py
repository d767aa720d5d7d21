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
from torch.utils.data import IterableDataset

from gcbs_cli.api import plan
from gcbs_cli.data.opening import open_arrays
from gcbs_cli.reports.batch_loss import batch_loss
from gcbs_cli.reports.sampled import plan_log
from gcbs_cli.settings.report import report_on
from gcbs_cli.settings.training import TrainingSettings
from gcbs_cli.system.arrays import Float32s, Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.embedding import Embed, RowEmbedder
from gcbs_cli.trainers.plan_source import PlanWarning
from gcbs_cli.trainers.ranks import gather_values, rank_and_world, share
from gcbs_cli.trainers.sampler import PlannedBatchSampler

Log = Callable[[dict[str, float]], object]

TRIALS = 3
"""Random orders that a plan is compared with."""
CHECKED_LOSSES = 2
"""Number of losses at the start of a run that are compared with the plan's."""
TOLERANCE = 1e-3
"""Largest difference of two equal losses in float32: a share of the loss, or of one nat if that is more."""
HALF_TOLERANCE = 0.05
"""Largest difference where the trainer computes in 16 bits."""
DRAWS = 16
"""How often a batch is embedded with dropout, where the reported loss has it, too."""
DROPOUT_DEVIATIONS = 6
"""Largest difference in standard deviations of these, on top: less than one in 300 good losses differs by more."""

_FEW = 16
"""Rows that are embedded in two orders."""

logger = logging.getLogger(__name__)


class Planner:
    """Makes a sampler's plans: `sampler.replan = planner`.

    On every rank at once it embeds the rows that are left (each rank a share), plans them on rank 0, measures what the
    plan is worth, and logs the figures and what they cost.

    Attributes:
        settings: With the temperature and the kind of the loss that is trained.
        name: Of the data set, where there are several.
        labels: (N,) an id for each row; rows with the same id never share a batch.
        history: The figures logged, a dictionary for each plan.
    """

    name = ""
    labels: Ints | None = None

    def __init__(self, embedder: RowEmbedder, settings: TrainingSettings, log: Log) -> None:
        self.embedder = embedder
        self.settings = settings
        self._log = log
        self.history: list[dict[str, float]] = []

    def __call__(self, sampler: PlannedBatchSampler, step: int, rows: Ints) -> Ints:
        """Return these rows in the order of a new plan."""
        if not self.history:
            self.embedder.check_order(rows[:: len(rows) // _FEW + 1])
        if sampler.epoch == step == 0 and self.settings.first == "random":
            return np.random.default_rng(sampler.seed).permutation(rows)
        rows = np.sort(rows)
        start = time.perf_counter()
        sides = self.embedder.all_rows(rows)
        embedded = time.perf_counter()
        order, figures = share(lambda: self._plan(sampler, rows, sides))
        figures |= {
            "epoch": sampler.epoch,
            "step": step,
            "k": sampler.loss_batch_size,
            "rows": len(rows),
            "embed_seconds": embedded - start,
            "plan_seconds": time.perf_counter() - embedded,
        }
        prefix = f"gcbs/{self.name}/" if self.name else "gcbs/"
        logs = {prefix + name: value for name, value in figures.items()}
        self.history.append(logs)
        logger.info("%s", logs)
        self._log(dict(logs))  # a copy: trainers add to what they log
        return rows[order]

    def _plan(self, sampler: PlannedBatchSampler, rows: Ints, sides: list[Float32s]) -> tuple[Ints, dict[str, float]]:
        groups = None if self.labels is None else self.labels[rows]
        result = plan(*sides, groups=groups, **self.settings.plan_settings(sampler.loss_batch_size))
        threshold = None if result.threshold is None else result.threshold.similarity
        settings = report_on(result.settings, threshold)
        settings = settings.changed(loss=self.settings.loss_kind, drop_last=sampler.drop_last, trials=TRIALS)
        return result.perm, plan_log(open_arrays(*sides).read(), result.perm, settings, groups)


def check_plannable(dataset: Any) -> None:
    """Raises BadInput for a data set whose rows have no numbers, such as a stream."""
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__") or isinstance(dataset, IterableDataset):
        raise BadInput(
            f"{type(dataset).__name__}: expected a data set with a length, as a plan orders rows by number; load a "
            "stream whole, or write it in plan order with gcbs apply"
        )


def check_source(plan: Any, embed: Embed | None) -> None:
    """Raises BadInput unless either a plan or a function that embeds is given."""
    if (plan is None) == (embed is None):
        raise BadInput("plan, embed: expected one; embed takes a batch and returns the embeddings of both sides")


def batch_size_of(plan: Any, settings: TrainingSettings, trained: int) -> int:
    """k of the trainer, checked against the settings. Raises BadInput.

    trained: the pairs that one loss of the trainer sees.
    """
    size = settings.batch_size if "batch_size" in settings.model_fields_set else None
    if isinstance(plan, np.ndarray | list | tuple) and size is None:
        raise BadInput("plan: an order of rows does not say its batch size; give batch_size, or the path of a plan")
    if trained < 2:
        raise BadInput("trainer: found one pair per loss, expected 2 or more; ready batches cannot be planned")
    if size not in (None, trained):
        raise BadInput(f"batch_size {size}: the trainer makes losses of {trained} pairs; make the two equal")
    return trained


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
    and a loss that gathers although the plan assumes that it does not.

    Args:
        half: The trainer computes in 16 bits.
    """

    def __init__(self, *, half: bool = False) -> None:
        self._tolerance = HALF_TOLERANCE if half else TOLERANCE
        self.comparisons: list[Comparison] = []
        self.over = False
        """Nothing more is checked: in a run that resumes, or where the plan cannot say what the loss should be."""
        self._batches: list[tuple[Planner, Ints]] = []

    def note(self, planner: Planner, sampler: PlannedBatchSampler, step: int) -> None:
        """Note the rows of the first losses, in the order in which a loader asks the samplers for them."""
        if len(self._batches) < CHECKED_LOSSES:
            self._batches.append((planner, sampler.step_rows(step)))

    @property
    def due(self) -> Planner | None:
        """The planner of the batch whose loss is to be checked next; None where no check is left."""
        step = len(self.comparisons)
        if self.over or step >= len(self._batches):
            return None
        return self._batches[step][0]

    def compare(self, reported: float, draws: int = 1) -> None:
        """Compare this rank's next loss with the one of its rows by the model of this moment, on every rank at once.

        draws: how often to embed the rows, in the model's present mode: several times where that has dropout.
        """
        step = len(self.comparisons)
        planner, rows = self._batches[step]
        losses = []
        for sides in planner.embedder.embed_batches([rows], draws):
            x, y = (normalize(torch.from_numpy(side)) for side in sides)
            losses.append(float(batch_loss(x, y, planner.settings.temperature, planner.settings.loss_kind)))
        figures = gather_values([reported, np.mean(losses), np.std(losses)])
        reported, expected, deviation = np.mean(figures, axis=0).tolist()
        tolerance = self._tolerance * max(expected, 1.0) + DROPOUT_DEVIATIONS * deviation
        agrees = abs(reported - expected) <= tolerance
        self.comparisons.append(Comparison(step, reported, expected, agrees))
        if agrees:
            logger.info("step %d: the loss is that of the planned batch (%.4f)", step, expected)
        elif rank_and_world()[0] == 0:
            warnings.warn(
                f"step {step}: the trainer's loss is {reported:.4f}, the planned batch's is {expected:.4f} nats; "
                "the batches that reach the loss are not the planned ones, or its temperature or direction differs",
                PlanWarning,
                stacklevel=3,
            )
