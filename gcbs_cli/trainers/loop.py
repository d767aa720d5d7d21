"""Planned batches for a loop of one's own: `for batch in gcbs.planned(loader, embed=...)`."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch.utils.data import DataLoader

from gcbs_cli.settings.training import TrainingSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.embedding import Embed, RowEmbedder
from gcbs_cli.trainers.loss_check import TOLERANCE, LossCheck
from gcbs_cli.trainers.planner import Log, LossFacts, Planner, batch_size_of, check_plannable, in_process
from gcbs_cli.trainers.sampler import place


class PlannedLoader:
    """The planned batches of a DataLoader's data set: each `for` over it is one epoch.

    `sampler` is its `PlannedBatchSampler`, `planner` makes the plans (None with a plan of one's own), `check` holds the
    compared losses. `state_dict()` says where it is, with the plan, to resume in the middle of an epoch.
    """

    def __init__(
        self,
        loader: "DataLoader[Any]",
        plan: Any,
        asked: TrainingSettings,
        *,
        embed: Embed | None,
        model: Any = None,
        log: Log | None = None,
        precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
        tolerance: float = TOLERANCE,
    ) -> None:
        dataset = loader.dataset
        check_plannable(dataset)
        if (plan is None) == (embed is None):
            raise BadInput("planned: give a plan, or embed to make one each epoch; not both and not neither")
        if loader.batch_size is None:
            raise BadInput("planned: the loader has a batch sampler of its own; give it batch_size instead")
        ranks = place()[1] if asked.gather else 1
        size = batch_size_of(plan, asked, loader.batch_size * ranks, f"the loader's batch_size {loader.batch_size}")
        self.planner = None
        if embed is not None:
            embedder = RowEmbedder(
                dataset,
                loader.collate_fn,
                embed,
                batch_size=loader.batch_size,
                model=model,
                workers=loader.num_workers,
                precision=precision,
            )
            facts = LossFacts(asked.temperature, asked.loss or "symmetric", asked.gather)
            self.planner = Planner(embedder, asked, facts, log or (lambda figures: None))
        given: dict[str, Any] = {} if plan is None else {"plan": plan}
        given |= {"drop_last": loader.drop_last or None, "gather": asked.gather}
        self.sampler = in_process(dataset, size, self.planner, asked, **given)
        self.check = LossCheck(tolerance)
        if self.planner is not None:
            self.check.watch(self.sampler, self.planner)
        self._done, self._last_epoch = 0, -1
        self._loader: DataLoader[Any] = DataLoader(
            dataset,
            batch_sampler=self.sampler,
            collate_fn=loader.collate_fn,
            num_workers=loader.num_workers,
            pin_memory=loader.pin_memory,
            persistent_workers=loader.persistent_workers,
            prefetch_factor=loader.prefetch_factor,
            worker_init_fn=loader.worker_init_fn,
        )

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank."""
        return len(self.sampler)

    def __iter__(self) -> Iterator[Any]:
        if self.sampler.epoch == self._last_epoch:  # nobody said the epoch: it is the next one
            self.sampler.set_epoch(self._last_epoch + 1)
        self._last_epoch = self.sampler.epoch
        self._done = self.sampler.state_dict()["step"] % len(self)
        for batch in self._loader:
            self._done += 1
            yield batch

    def check_loss(self, loss: Any) -> None:
        """Compare this rank's loss of the batch just yielded with what the plan says, for the first losses of a run.

        Call it on every rank after the loss and before the weights change; it warns (PlanWarning) where they differ.
        """
        if self.check.due is not None:
            self.check.compare(float(loss))

    def state_dict(self) -> dict[str, Any]:
        """The place after the batch that was yielded last, and the plan."""
        return self.sampler.state_dict(step=self._done)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there: the next `for` yields the rest of that epoch. Raises BadInput where the plan differs."""
        self.sampler.load_state_dict(state)
        self._last_epoch, self.check.over = -1, True
