"""transformers' Trainer: planned batches, a new plan each epoch, and a check of the first losses."""

from typing import Any

import numpy as np
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.epoch_planner import EpochPlanner
from gcbs_cli.trainers.loss_check import LossCheck
from gcbs_cli.trainers.plan_source import PlanSource
from gcbs_cli.trainers.sampler import PlannedBatchSampler, Yields, sampler_of

_EPOCH_ROUNDING = 1e-6


class PlannedTrainerMixin:
    """Makes a Trainer use planned batches: `class MyTrainer(PlannedTrainerMixin, Trainer)`; set `plan` before training.

    plan: as for `PlannedBatchSampler`. per_device_train_batch_size must be k, or k/W if the loss gathers from W ranks
    (k with split_batches=True). Settings of accelerator_config that would split batches are refused.
    """

    plan: Any = None
    gather: bool | None = None
    shuffle_batches = True
    sampler: PlannedBatchSampler

    def get_train_dataloader(self) -> "DataLoader[Any]":
        """Return the prepared loader over planned batches. Raises BadInput if the arguments would split them."""
        trainer: Any = self
        args, dataset = trainer.args, trainer.train_dataset
        if self.plan is None:
            raise BadInput("plan: none given; set the trainer's plan before training")
        if args.n_gpu > 1:
            raise BadInput("DataParallel splits each batch between GPUs; start one process per GPU with torchrun")
        collator = trainer.data_collator
        if hasattr(dataset, "remove_columns"):
            dataset = trainer._remove_unused_columns(dataset, description="training")
        else:
            collator = trainer._get_collator_with_removed_columns(collator, description="training")
        self.sampler = sampler_for_batch_size(
            self.plan,
            args.train_batch_size,
            dataset,
            gather=self.gather,
            drop_last=args.dataloader_drop_last or None,
            shuffle_batches=self.shuffle_batches,
            seed=args.seed if args.data_seed is None else args.data_seed,
        )
        loader: DataLoader[Any] = DataLoader(
            dataset,
            batch_sampler=self.sampler,
            collate_fn=collator,
            num_workers=args.dataloader_num_workers,
            pin_memory=args.dataloader_pin_memory,
            persistent_workers=args.dataloader_persistent_workers,
            prefetch_factor=args.dataloader_prefetch_factor,
        )
        return trainer.accelerator.prepare(loader)


class PlannedCallback(TrainerCallback):
    """Sets the epoch, plans it, and checks the first losses, for Trainer and sentence-transformers.

    planned: the trainer with `PlannedTrainerMixin`, a `PlannedBatches`, or a sampler. A run that may be resumed on
    several ranks needs this callback, because the trainer cannot tell the sampler the epoch there.
    planner: plans each epoch when it begins. check: compares the losses of the first steps; it needs logging_steps=1,
    or logging_first_step=True for the first one.
    """

    def __init__(self, planned: Any, *, planner: EpochPlanner | None = None, check: LossCheck | None = None) -> None:
        self._planned, self._planner, self._check = planned, planner, check
        self._expected: dict[int, float] = {}
        self._first_step = -1

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        epoch, share = divmod((state.epoch or 0.0) + _EPOCH_ROUNDING, 1.0)
        for sampler in _samplers(self._planned):
            sampler.set_epoch(int(epoch))
        begins, resumed = self._first_step < 0, share > 2 * _EPOCH_ROUNDING
        if begins:
            self._first_step = state.global_step
            self._check = None if resumed else self._check  # which needs the first steps of an epoch
        if self._planner is not None:
            (self._planner.resume_epoch if begins and resumed else self._planner.start_epoch)(int(epoch))

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        check = self._check
        if check is None or not state.is_world_process_zero:
            return
        step, each = state.global_step - self._first_step, args.gradient_accumulation_steps
        if check.wants(step, each):
            losses = [check.expect(number) for number in range(step * each, (step + 1) * each)]
            self._expected[state.global_step + 1] = float(np.mean(losses))

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        expected = self._expected.pop(state.global_step, None)
        alone = args.logging_steps == 1 or state.global_step == self._first_step + 1
        if self._check is not None and expected is not None and alone and logs and "loss" in logs:
            self._check.compare(state.global_step - 1, float(logs["loss"]), expected)


def sampler_for_batch_size(
    plan: Any,
    batch_size: int,
    dataset: Any,
    *,
    gather: bool | None = None,
    interleaved: bool = False,
    **settings: Any,
) -> PlannedBatchSampler:
    """Make the sampler for a trainer whose loader has `batch_size` rows; accelerate deals its batches to the ranks.

    interleaved: batches of several datasets alternate, so that the slices of a batch would not stay together.
    Raises BadInput if `batch_size` is neither k nor, if the loss gathers from W ranks, k/W.
    """
    from accelerate import PartialState

    state = PartialState()
    ranks = state.num_processes
    source = PlanSource(plan, len(dataset)).for_epoch(0)
    gathers = ranks > 1 and (bool(source.gather) if gather is None else gather)
    size = source.batch_size or (batch_size * ranks if gathers else batch_size)
    slices = gathers and batch_size * ranks == size
    if batch_size != size and not slices:
        fitting = f"{size // ranks}, or {size} with split_batches=True" if gathers else f"{size}"
        raise BadInput(
            f"per_device_train_batch_size {batch_size}: {source.name} was planned for batches of {size}; use {fitting}"
        )
    if slices and interleaved:
        raise BadInput(
            f"per_device_train_batch_size {batch_size}: with several datasets, the slices of a batch would go to "
            f"different steps; use {size}, and split_batches=True in accelerator_config"
        )
    return PlannedBatchSampler(
        plan,
        size,
        gather=gather,
        rank=state.process_index,
        world_size=ranks,
        yields=Yields.SLICES if slices else Yields.BATCHES,
        dataset=dataset,
        **settings,
    )


def _samplers(planned: Any) -> list[PlannedBatchSampler]:
    several = getattr(planned, "samplers", None)
    return [sampler_of(planned)] if several is None else list(several.values())
