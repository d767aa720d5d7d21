"""Planned batches for a loop of one's own: `for batch in gcbs.planned(loader, embed=...)`."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SequentialSampler

from gcbs_cli.settings.training import TrainingSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.embedding import Embed, RowEmbedder, evaluating, loader_like
from gcbs_cli.trainers.planner import (
    DRAWS,
    Log,
    LossCheck,
    Planner,
    TrainedBatch,
    batch_size_of,
    check_plannable,
    check_source,
)
from gcbs_cli.trainers.ranks import rank_and_world
from gcbs_cli.trainers.sampler import PlannedBatchSampler


class PlannedLoader:
    """The planned batches of a DataLoader's data set: each `for` over it is one epoch.

    `state_dict()` says where it is, with the plan, to resume in the middle of an epoch.

    Attributes:
        sampler: Its `PlannedBatchSampler`.
        planner: Makes the plans; None with a plan of one's own.
        check: Holds the compared losses.
    """

    def __init__(
        self,
        loader: "DataLoader[Any]",
        plan: Any,
        settings: TrainingSettings,
        *,
        embed: Embed | None,
        model: Any = None,
        log: Log | None = None,
        precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
        check: LossCheck | None = None,
        batches: deque[TrainedBatch] | None = None,
        lengths: Callable[[], Ints | None] = lambda: None,
    ) -> None:
        """settings: with temperature, kind and gathering of the loss; check, batches: of several data sets; precision,
        lengths: as in `RowEmbedder`.
        """
        if not isinstance(loader, DataLoader):
            raise BadInput(f"{type(loader).__name__}: found as the train loader, expected one DataLoader")
        dataset = loader.dataset
        size = loader.batch_size
        check_plannable(dataset)
        check_source(plan, embed)
        if size is None:
            raise BadInput("planned: the loader has a batch sampler of its own; give it batch_size instead")
        _check_rows(loader)
        if settings.gather:
            size *= rank_and_world()[1]
        self.sampler = PlannedBatchSampler(
            np.arange(len(dataset)) if plan is None else plan,  # type: ignore[arg-type]
            batch_size_of(plan, settings, size),
            loader.drop_last or None,
            settings.shuffle_batches,
            settings.seed,
            gather=settings.gather,
            dataset=dataset,  # type: ignore[arg-type]
        )
        self.check = check or LossCheck()
        self._batches: deque[TrainedBatch] = deque() if batches is None else batches
        """Those that the loader was asked for and that training has not taken yet."""
        self._batch: TrainedBatch | None = None
        self.planner: Planner | None = None
        if embed is not None:
            embedder = RowEmbedder(loader, embed, model=model, lengths=lengths, precision=precision)
            planner = Planner(embedder, len(dataset), settings, log or (lambda figures: None))  # type: ignore[arg-type]
            self.planner = self.sampler.replan = planner
            self.sampler.every = settings.refresh if isinstance(settings.refresh, int) else None
            self.sampler.on_batch = lambda *step: self._batches.append(TrainedBatch(planner, self.sampler, *step))
        self._done = 0
        self._last_epoch = -1
        self.loader = loader_like(loader, dataset, self.sampler)

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank."""
        return len(self.sampler)

    def __iter__(self) -> Iterator[Any]:
        if self.sampler.epoch == self._last_epoch:  # nobody has set an epoch: it is the next one
            self.sampler.set_epoch(self._last_epoch + 1)
        self._last_epoch = self.sampler.epoch
        self._done = self.sampler.step
        self._batches.clear()
        for batch in self.loader:
            self._done += 1
            if self.planner is not None:
                self._batch = self._batches.popleft()
            yield batch

    def saw(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Keep the embeddings of the batch just yielded, so that the next plan needs no pass for its rows.

        Args:
            x: (k, d) this rank's embeddings of the first side, as they went into the loss.
            y: Likewise, of the second side.
        """
        if self._batch is not None:
            self._batch.keep(x, y)

    def check_loss(self, loss: Any) -> None:
        """Compare this rank's loss of the batch just yielded with what the plan says, for the first losses of a run.

        Call it on every rank after the loss and before the weights change; it warns (PlanWarning) where they differ.

        Args:
            loss: Of this batch, a number or a tensor with one; or, where the model has dropout, better a function that
                computes it, which is called without dropout and compared the more sharply.
        """
        if self._batch is None or not self.check.is_due:
            return
        if not callable(loss):
            self.check.compare(self._batch, float(torch.as_tensor(loss).detach()), DRAWS)
            return
        with torch.no_grad(), evaluating(self._batch.planner.embedder.model):
            self.check.compare(self._batch, float(loss()))

    def state_dict(self) -> dict[str, Any]:
        """The place after the batch that was yielded last, and the plan."""
        iterated = self.sampler.epoch == self._last_epoch
        return self.sampler.state_dict(self._done if iterated else None)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state: the next `for` yields the rest of its epoch.

        Raises:
            BadInput: If the plan, batch size, ranks, seed or shuffling have changed.
        """
        self.sampler.load_state_dict(state)
        self._last_epoch = -1
        self.check.over = True


def _check_rows(loader: "DataLoader[Any]") -> None:
    """Raises BadInput where a loader's sampler chooses which rows are trained on, not their order alone."""
    sampler = loader.sampler
    rows = sampler.dataset if isinstance(sampler, DistributedSampler) else sampler
    known = isinstance(sampler, SequentialSampler | RandomSampler | DistributedSampler)
    if not known or getattr(sampler, "replacement", False) or len(rows) != len(loader.dataset):  # type: ignore[arg-type]
        raise BadInput(f"{type(sampler).__name__}: chooses rows or weighs them; make the rows to train on the data set")
