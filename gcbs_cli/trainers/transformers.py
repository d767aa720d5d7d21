"""transformers' Trainer and those made of it: planned batches in their train loader."""

import base64
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, DataLoader

from gcbs_cli.settings.training import TrainingSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.embedding import Embed, evaluating, loader_like
from gcbs_cli.trainers.loop import PlannedLoader
from gcbs_cli.trainers.planner import LossCheck, Planner, check_plannable
from gcbs_cli.trainers.sampler import PlannedBatchSampler

STATE = "gcbs"
"""The name of the plans in a checkpoint's trainer_state.json."""
KNOWN_LOADERS = ("transformers.", "sentence_transformers.", "pylate.")
"""Modules whose way to make a train loader is replaced."""
_ROUNDING = 1e-4
"""Largest error of the epoch, a fraction, as the trainer counts it."""


class PlannedTrainer:
    """Gives the train loader of a trainer planned batches; `plan_batches` makes it.

    Attributes:
        planned: A `PlannedLoader` for each data set, by its name, which is "" where there is only one.
        check: Holds the compared losses.
        history: The figures logged, a dictionary for each plan.
    """

    own_embed: Any = None
    """Embeds a batch, where the trainer says how."""

    def __init__(self, trainer: Any, plan: Any, settings: TrainingSettings, embed: Embed | None) -> None:
        args = trainer.args
        self.trainer = trainer
        self.settings = settings
        if "seed" not in settings.model_fields_set:
            self.settings = settings.changed(seed=args.seed if args.data_seed is None else args.data_seed)
        self.embed = embed or self.own_embed
        several = isinstance(trainer.train_dataset, Mapping)
        self.datasets: dict[str, Any] = dict(trainer.train_dataset) if several else {"": trainer.train_dataset}
        self._plans: Any = plan if several else {"": plan}
        if plan is None:
            self._plans = {}
        self.check_trainer()
        self.check = LossCheck(half=args.bf16 or args.fp16)
        self.planned = {name: self._planned(name) for name in self.datasets}
        self._compute = trainer.compute_loss
        trainer.get_train_dataloader = self._loader
        trainer.compute_loss = self._compute_loss

    @property
    def history(self) -> list[dict[str, float]]:
        """The figures logged, a dictionary for each plan."""
        planners = [loader.planner for loader in self.planned.values() if loader.planner is not None]
        return [figures for planner in planners for figures in planner.history]

    def check_trainer(self) -> None:
        """Raises BadInput, before any compute, where the batches of the loss would not be the planned ones."""
        trainer = self.trainer
        args = trainer.args
        for dataset in self.datasets.values():
            check_plannable(dataset)
        if not isinstance(self._plans, Mapping) or (self._plans and self._plans.keys() != self.datasets.keys()):
            raise BadInput(f"plan: expected one for each data set, as {{name: plan}} of {', '.join(self.datasets)}")
        module = type(trainer).get_train_dataloader.__module__
        if not f"{module}.".startswith(KNOWN_LOADERS):
            raise BadInput(f"{type(trainer).__name__}: makes a train loader of its own, which would not use the plan")
        if args.n_gpu > 1:
            raise BadInput("DataParallel splits each batch between GPUs; start one process per GPU with torchrun")
        sampling = getattr(args, "train_sampling_strategy", None)  # since transformers 5
        if getattr(args, "group_by_length", False) or sampling in ("group_by_length", "batch_rebalance"):
            raise BadInput(f"{sampling or 'group_by_length'}: chooses the rows of a batch, as plans do; leave it out")
        if args.auto_find_batch_size:
            raise BadInput("auto_find_batch_size: a plan is for one batch size; set per_device_train_batch_size")
        if trainer.is_fsdp_enabled and not self._plans:
            raise BadInput("FSDP: a rank cannot embed its share of rows with a sharded model; give a plan")

    def loss_settings(self, name: str) -> TrainingSettings:
        """The settings, with what is known of the loss of a data set: temperature, kind, whether it gathers."""
        return self.settings

    def view(self, dataset: Any) -> tuple[Any, Any]:
        """The data set and the collation of its loader, without the columns that the model does not take."""
        trainer = self.trainer
        if hasattr(dataset, "remove_columns"):
            return trainer._remove_unused_columns(dataset, description="training"), trainer.data_collator
        return dataset, trainer._get_collator_with_removed_columns(trainer.data_collator, description="training")

    def lengths(self, dataset: Any) -> Ints | None:
        """(N,) the lengths of the rows' texts, where they are known."""
        return None

    def labels(self, dataset: Any, batch_size: int) -> Ints | None:
        """(N,) an id for each row, where rows with the same id must not share a batch."""
        return None

    def clean_loss(self, planner: Planner, model: Any, inputs: Any) -> Any:
        """The loss of a batch without dropout, to compare; None where the plan cannot say what it should be."""
        return self._compute(model, dict(inputs))

    def _planned(self, name: str) -> PlannedLoader:
        """The planned batches of one data set."""
        trainer = self.trainer
        args = trainer.args
        plan = self._plans.get(name)
        dataset, collate = self.view(self.datasets[name])
        planned = PlannedLoader(
            DataLoader(
                dataset,
                args.train_batch_size,
                collate_fn=collate,
                drop_last=args.dataloader_drop_last,
                num_workers=args.dataloader_num_workers,
                pin_memory=args.dataloader_pin_memory,
                persistent_workers=args.dataloader_persistent_workers,
                prefetch_factor=args.dataloader_prefetch_factor,
            ),
            plan,
            self.loss_settings(name),
            embed=self.embed if plan is None else None,
            model=trainer.model,
            log=trainer.log,
            precision=trainer.compute_loss_context_manager,
            check=self.check,
            ranks=1 if args.accelerator_config.split_batches else None,
            lengths=self.lengths(dataset) if plan is None else None,
        )
        if planned.planner is not None:
            planned.planner.name = name
            planned.planner.labels = self.labels(dataset, planned.sampler.loss_batch_size)
            planned.sampler.replan = partial(self._replan, planned.planner)
        return planned

    def _replan(self, planner: Planner, sampler: PlannedBatchSampler, step: int, rows: Ints) -> Ints:
        """The plan of this epoch from the checkpoint, in a run that resumes within it, else a new one to keep."""
        state = self.trainer.state
        name = planner.name
        saved = state.stateful_callbacks.get(STATE, {})
        if step == 0 and saved.get(name, {}).get("epoch") == sampler.epoch:
            sampler.planned_at = saved[name]["step"]
            return np.frombuffer(base64.b64decode(saved[name]["perm"]), np.int64)
        if not saved and math.modf((state.epoch or 0.0) + _ROUNDING)[0] > 2 * _ROUNDING:
            raise BadInput(
                "resume_from_checkpoint: found a checkpoint from the middle of an epoch, without its plan: rows would "
                "be missed or repeated; resume from the end of an epoch"
            )
        planner.embedder.model = self.trainer.model  # which model_init makes when training begins
        order = planner(sampler, step, rows)
        perm = sampler.plan.perm.copy()
        perm[np.isin(perm, rows)] = order
        record = {"epoch": sampler.epoch, "step": step, "perm": base64.b64encode(perm.tobytes()).decode()}
        state.stateful_callbacks[STATE] = {**saved, name: record}
        return order

    def _loader(self) -> "DataLoader[Any]":
        """The train loader. The samplers deal the batches to ranks, so that accelerate has nothing to prepare."""
        loaders = [planned.loader for planned in self.planned.values()]
        loader = loaders[0]
        if "" not in self.planned:
            seed = self.trainer.args.seed
            dataset: Any = ConcatDataset([part.dataset for part in loaders])
            sampler = self.trainer.get_multi_dataset_batch_sampler(
                dataset,
                [part.batch_sampler for part in loaders],
                generator=torch.Generator().manual_seed(seed),
                seed=seed,
            )
            loader = loader_like(loader, dataset, sampler)
        loader.set_epoch = loader.batch_sampler.set_epoch  # type: ignore[attr-defined, union-attr]
        return loader

    def _compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The trainer's loss; the first ones of a run are compared with the plan's, on every rank."""
        check = self.check
        check.over |= not check.comparisons and self.trainer.state.global_step > 0  # a run that resumes
        planner = check.due
        if model.training and planner is not None:
            with torch.no_grad(), evaluating(model):
                loss = self.clean_loss(planner, model, inputs)
            check.over = loss is None
            if loss is not None:
                check.compare(float(loss))
        return self._compute(model, inputs, *args, **kwargs)
