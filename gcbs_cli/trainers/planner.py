"""Plan from the current model's embeddings, in the training process, and check that its loss is that of the plan."""

import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize
from torch.utils.data import IterableDataset

from gcbs_cli.api import plan
from gcbs_cli.data.opening import open_arrays
from gcbs_cli.plan_file.permutation import write_array
from gcbs_cli.plan_file.writing import file
from gcbs_cli.reports.batch_loss import batch_loss
from gcbs_cli.reports.sampled import plan_log
from gcbs_cli.settings.report import report_on
from gcbs_cli.settings.training import TrainingSettings
from gcbs_cli.system.arrays import Array, Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.embedding import Embed, RowEmbedder
from gcbs_cli.trainers.plan_source import PlanWarning
from gcbs_cli.trainers.ranks import gather_to_first, gather_values, rank_and_world, share
from gcbs_cli.trainers.sampler import PlannedBatchSampler
from gcbs_cli.trainers.store import EmbeddingStore, nearest_keys

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

STALE = 0.5
"""Share of changed nearest keys from which a plan is made anew."""

_FEW = 16
"""Rows that are embedded in two orders."""

logger = logging.getLogger(__name__)


class Planner:
    """Makes a sampler's plans: `sampler.replan = planner`.

    On every rank at once it takes the embeddings that training has kept of the rows that are left, embeds those that it
    has not (each rank a share), plans on rank 0, measures what the plan is worth, and logs the figures and what they
    cost.

    Attributes:
        settings: With the temperature and the kind of the loss that is trained.
        store: The embeddings kept; training adds to it.
        name: Of the data set, where there are several.
        labels: (N,) an id for each row; rows with the same id never share a batch.
        history: The figures logged, a dictionary for each plan.
    """

    name = ""
    labels: Ints | None = None

    def __init__(self, embedder: RowEmbedder, rows: int, settings: TrainingSettings, log: Log) -> None:
        self.embedder = embedder
        self.store = EmbeddingStore(rows)
        self.settings = settings
        self._log = log
        self.history: list[dict[str, float]] = []
        self._nearest: Ints | None = None

    def __call__(self, sampler: PlannedBatchSampler, step: int, rows: Ints) -> Ints:
        """Return these rows in the order of a new plan."""
        if not self.history:
            self.embedder.check_order(rows[:: len(rows) // _FEW + 1])
        if sampler.epoch == step == 0 and self.settings.first == "random":
            return np.random.default_rng(sampler.seed).permutation(rows)
        refresh = self.settings.refresh
        if refresh == "once" and self.history:
            return rows
        last_order = rows
        rows = np.sort(rows)
        start = time.perf_counter()
        sides, embedded_rows = self._embeddings(rows, sampler.epoch)
        embedded = time.perf_counter()
        if refresh == "stale" and not share(lambda: self._is_stale(sides)):
            return last_order
        order, figures = share(lambda: self._plan(sampler, rows, sides))
        figures |= {
            "epoch": sampler.epoch,
            "step": step,
            "k": sampler.loss_batch_size,
            "rows": len(rows),
            "rows_embedded": embedded_rows,
            "embed_seconds": embedded - start,
            "plan_seconds": time.perf_counter() - embedded,
        }
        prefix = f"gcbs/{self.name}/" if self.name else "gcbs/"
        logs = {prefix + name: value for name, value in figures.items()}
        self.history.append(logs)
        logger.info("%s", logs)
        self._log(dict(logs))  # a copy: trainers add to what they log
        return rows[order]

    def save_embeddings(self, x: str, y: str) -> None:
        """Write both sides of all rows, those that training has not kept embedded now; call it on every rank.

        Args:
            x: The .npy file to write, replaced if it exists, with (N, d) unit rows for `gcbs plan` and `gcbs report`.
            y: Likewise.
        """
        sides, _ = self._embeddings(np.arange(len(self.store.age)), 0)
        if rank_and_world()[0] == 0:
            for path, side in zip((x, y), sides, strict=True):
                with file(Path(path), force=True) as output:
                    write_array(output, side)

    def _embeddings(self, rows: Ints, epoch: int) -> tuple[list[Array], int]:
        """Both sides of these rows, which rise, on rank 0, and how many were embedded for it."""
        if not all(gather_values(self.store.check(self.embedder, epoch))):
            self.store.clear()
            warnings.warn(
                "the embeddings kept from training are not those of their rows any more; all rows are embedded anew",
                PlanWarning,
                stacklevel=3,
            )
        kept, kept_sides = self.store.of_rows(rows)
        missing = np.setdiff1d(rows, np.concatenate(gather_values(kept)))
        embedded, embedded_sides = self.embedder.embed_share(missing)
        ages = np.concatenate([self.store.age[kept], np.full(len(embedded), epoch, np.int32)])
        parts = gather_to_first((np.concatenate([kept, embedded]), ages))
        numbers, ages = (np.concatenate(values) for values in zip(*parts, strict=True))
        order = np.lexsort((ages, numbers))
        youngest = order[np.append(np.diff(numbers[order]) > 0, True)]
        sides: list[Array] = []
        for side in (0, 1):  # one after the other: a gather holds what it gathers twice
            arrays = gather_to_first([part[side] for part in (kept_sides, embedded_sides) if len(part[side])])
            if rank_and_world()[0] == 0:
                sides.append(np.concatenate(list(chain.from_iterable(arrays)))[youngest])
        return sides, len(missing)

    def _is_stale(self, sides: list[Array]) -> bool:
        """Whether the nearest keys of a sample have changed since the last plan, by more than a plan can bear."""
        nearest = nearest_keys(sides[0], sides[1])
        if self._nearest is not None:
            changed = 1.0 - np.mean([np.isin(new, old).mean() for new, old in zip(nearest, self._nearest, strict=True)])
            logger.info("%.0f%% of the nearest keys have changed since the last plan", 100.0 * changed)
            if changed < STALE:
                return False
        self._nearest = nearest
        return True

    def _plan(self, sampler: PlannedBatchSampler, rows: Ints, sides: list[Array]) -> tuple[Ints, dict[str, float]]:
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
class TrainedBatch:
    """A batch that a sampler handed out at a step, and this rank's rows of it."""

    planner: Planner
    sampler: PlannedBatchSampler
    step: int
    rows: Ints

    def keep(self, x: Any, y: Any) -> None:
        """Keep its embeddings for the next plan."""
        self.planner.store.add(self.sampler.epoch, self.rows, x, y)


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

    @property
    def is_due(self) -> bool:
        """Whether the loss of the next batch is to be checked."""
        return not self.over and len(self.comparisons) < CHECKED_LOSSES

    def compare(self, batch: TrainedBatch, reported: float, draws: int = 1) -> None:
        """Compare this rank's loss of a batch with the one of its rows by the model of this moment, on every rank.

        draws: how often to embed the rows, in the model's present mode: several times where that has dropout.
        """
        step, planner = len(self.comparisons), batch.planner
        rows = batch.sampler.step_rows(batch.step)
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
