"""Lightning: a data module whose sampler deals the planned batches to ranks, and a callback.

Under DDP, Lightning rebuilds batch samplers around its own DistributedSampler, which would shuffle the plan.
`Trainer(use_distributed_sampler=False)` leaves them alone; without it this module refuses to start.
"""

from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader

try:
    import lightning.pytorch as pl
except ModuleNotFoundError:  # the same library under its older name
    import pytorch_lightning as pl  # type: ignore[no-redef]

from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.epoch_planner import EpochPlanner
from gcbs_cli.trainers.loss_check import LossCheck
from gcbs_cli.trainers.sampler import PlannedBatchSampler


class PlannedDataModule(pl.LightningDataModule):
    """The planned batches of a dataset. It saves its place, so that a run can resume in the middle of an epoch.

    plan, batch_size and `sampler_settings` are those of `PlannedBatchSampler`; `loader_settings` go to DataLoader.
    """

    def __init__(
        self,
        dataset: Any,
        plan: Any,
        batch_size: int | None = None,
        *,
        sampler_settings: dict[str, Any] | None = None,
        **loader_settings: Any,
    ) -> None:
        super().__init__()
        self._new_sampler = partial(PlannedBatchSampler, plan, batch_size, dataset=dataset, **(sampler_settings or {}))
        self._new_loader = partial(DataLoader, dataset, **loader_settings)
        self._resume: dict[str, Any] | None = None
        self.sampler: PlannedBatchSampler | None = None

    def setup(self, stage: str) -> None:
        trainer = self.trainer
        if trainer is None:
            return
        if trainer.world_size > 1 and trainer._accelerator_connector.use_distributed_sampler:
            raise BadInput(
                "Trainer(use_distributed_sampler=True) would replace the plan with a shuffled order; "
                "use Trainer(use_distributed_sampler=False)"
            )
        if self.sampler is None:
            self.sampler = self._new_sampler(rank=trainer.global_rank, world_size=trainer.world_size)

    def train_dataloader(self) -> "DataLoader[Any]":
        if self.sampler is None:
            raise BadInput("PlannedDataModule: it has no sampler before a Trainer calls its setup")
        if self._resume is not None:
            self.sampler.load_state_dict(self._resume)
            self._resume = None
        return self._new_loader(batch_sampler=self.sampler)

    def state_dict(self) -> dict[str, Any]:
        if self.sampler is None or self.trainer is None:
            return {}
        progress: Any = self.trainer.fit_loop.epoch_loop.batch_progress.current
        return self.sampler.state_dict(step=progress.processed)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        whole = self.sampler is not None and state_dict.get("step", 0) >= len(self.sampler)
        self._resume = None if whole or not state_dict else state_dict


class PlannedCallback(pl.Callback):
    """Plans each epoch when it begins, and checks the first losses.

    planned: the data module. planner: plans each epoch. check: compares the loss that `training_step` returns.
    """

    def __init__(
        self,
        planned: PlannedDataModule,
        *,
        planner: EpochPlanner | None = None,
        check: LossCheck | None = None,
    ) -> None:
        self._planned, self._planner, self._check = planned, planner, check
        self._planned_epoch = -1
        self._expected: float | None = None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Lightning makes the first epoch's iterator before on_train_epoch_start, and its workers read ahead.
        self._plan(trainer.current_epoch)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._plan(trainer.current_epoch)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._expected = None
        if self._check is not None and trainer.current_epoch == 0 and self._check.wants(batch_idx):
            self._expected = self._check.expect(batch_idx, trainer.global_rank)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._check is not None and self._expected is not None:
            loss = outputs["loss"] if isinstance(outputs, dict) else outputs
            scale = trainer.accumulate_grad_batches  # Lightning hands over the loss divided by it
            self._check.compare(batch_idx, float(torch.as_tensor(loss)) * scale, self._expected)

    def _plan(self, epoch: int) -> None:
        if self._planner is None or epoch == self._planned_epoch:
            return
        resumed = self._planned._resume is not None
        self._planner.resume_epoch(epoch) if resumed else self._planner.start_epoch(epoch)
        self._planned_epoch = epoch
