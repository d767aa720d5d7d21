"""Plan from the current model's embeddings, in the training process, whenever a sampler asks for it."""

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gcbs_cli.api import plan, report
from gcbs_cli.settings.training import TrainingSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.embedding import RowEmbedder
from gcbs_cli.trainers.sampler import PlannedBatchSampler

Log = Callable[[dict[str, float]], object]

TRIALS = 3
"""Random orders that a plan is compared with."""

logger = logging.getLogger(__name__)


class Planner:
    """Makes a sampler's plans: `sampler.replan = planner`.

    On every rank at once it embeds the rows that are left (each rank a share), plans them on rank 0, measures what the
    plan is worth, and logs the figures and what they cost, their names after `prefix`. asked: with the temperature and
    the kind of the loss that is trained. labels: (N,) an id for each row, rows with the same one never share a batch.
    `history` holds what was logged.
    """

    prefix = "gcbs/"
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
        logs = {self.prefix + name: value for name, value in {**figures, **spent}.items()}
        self.history.append(logs)
        logger.info("epoch %d, step %d: %s", sampler.epoch, step, logs)
        self._log(dict(logs))
        return rows[order]

    def _plan(self, sampler: PlannedBatchSampler, rows: Ints, sides: Any) -> tuple[Ints, dict[str, float]]:
        x, y = sides
        asked, size = self.asked, sampler.loss_batch_size
        settings = asked.plan_settings(size)
        if self.labels is not None:
            settings["groups"] = self.labels[rows]
        perm = plan(x, y, **settings).perm
        of_plan: dict[str, Any] = {"batch_size": size, "temperature": asked.temperature, "drop_last": sampler.drop_last}
        found = report(x, y, perm, loss=asked.loss_kind, trials=TRIALS, **of_plan)
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
            f"{type(dataset).__name__}: found a stream, expected a data set with a length, for a plan orders rows by "
            "their numbers; load it whole, or write it in plan order with gcbs apply"
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
            f"{said}: found losses of one pair, expected 2 or more; a data set of whole batches is not planned"
        )
    if given not in (None, trained):
        raise BadInput(f"batch_size {given}: {said} makes losses of {trained} pairs; make the two equal")
    return trained
