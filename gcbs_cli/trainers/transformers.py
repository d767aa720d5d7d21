"""transformers' Trainer and those made of it: planned batches in their train loader."""

import logging
import math
from collections import deque
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from zipfile import BadZipFile

import numpy as np
import torch
from torch.utils.data import ConcatDataset, DataLoader
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from gcbs_cli.data.files import open_file
from gcbs_cli.settings.training import TrainingSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.embedding import Embed, evaluating, loader_like
from gcbs_cli.trainers.loop import PlannedLoader
from gcbs_cli.trainers.planner import LossCheck, TrainedBatch, check_plannable
from gcbs_cli.trainers.ranks import rank_and_world

KNOWN_LOADERS = ("transformers.", "sentence_transformers.", "pylate.", "gcbs_cli.")
"""Modules whose way to make a train loader is replaced."""
_LOADER_PARTS = ("get_train_dataloader", "_build_dataloader", "_get_train_sampler", "get_batch_sampler")
"""Their methods for it."""
_ROUNDING = 1e-4
"""Largest error of the epoch, a fraction, as the trainer counts it."""

logger = logging.getLogger(__name__)


class PlannedTrainer(TrainerCallback):
    """Gives the train loader of a trainer planned batches; `plan_batches` makes it.

    Trainer, loss and data are read when it is made, so that it refuses at once, and again whenever the trainer makes
    its train loader: a search may change the batch size, a curriculum the data set.

    Attributes:
        planned: A `PlannedLoader` for each data set, by its name, which is "" where there is only one.
        check: Holds the compared losses.
        history: The figures logged, a dictionary for each plan.
    """

    own_embed: Any = None
    """Embeds a batch, where the trainer says how."""

    def __init__(self, trainer: Any, plan: Any, settings: TrainingSettings, embed: Embed | None) -> None:
        self.trainer = trainer
        self.settings = settings
        self.history: list[dict[str, float]] = []
        self._plan = plan
        self._embed = embed
        if plan is None:
            self._embed = embed or self.own_embed
        self._saved: dict[str, dict[str, Any]] = {}
        self._batches: deque[TrainedBatch] = deque()
        self._skips = False
        self._prepare()
        self._compute = trainer.compute_loss
        self._train = trainer.train
        trainer.get_train_dataloader = self._loader
        trainer.compute_loss = self._compute_loss
        trainer.train = self._train_on
        trainer.remove_callback(PlannedTrainer)
        trainer.add_callback(self)

    def check_trainer(self) -> None:
        """Raises BadInput, before any compute, where the batches of the loss would not be the planned ones."""
        trainer = self.trainer
        args = trainer.args
        for part in _LOADER_PARTS:
            module = getattr(getattr(trainer, part, self), "__module__", "")
            if not f"{module}.".startswith(KNOWN_LOADERS):
                raise BadInput(f"{type(trainer).__name__}: makes a train loader of its own ({part}), not the plan's")
        if args.n_gpu > 1:
            raise BadInput("DataParallel splits each batch between GPUs; start one process per GPU with torchrun")
        sampling = getattr(args, "train_sampling_strategy", None)  # since transformers 5
        if getattr(args, "group_by_length", False) or sampling in ("group_by_length", "batch_rebalance"):
            raise BadInput(f"{sampling or 'group_by_length'}: chooses the rows of a batch, as plans do; leave it out")
        if args.auto_find_batch_size:
            raise BadInput("auto_find_batch_size: a plan is for one batch size; set per_device_train_batch_size")
        if trainer.is_fsdp_enabled and self._plan is None:
            raise BadInput("FSDP: a rank cannot embed its share of rows with a sharded model; give a plan")

    def loss_settings(self, name: str) -> TrainingSettings:
        """The settings, with what is known of the loss of a data set: temperature, kind, whether it gathers."""
        return self.settings

    def loss_module(self, name: str) -> Any:
        """What computes the loss of a data set."""
        return self.trainer.model

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

    def clean_loss(self, name: str, model: Any, inputs: Any) -> Any:
        """The loss of a batch without dropout, to compare; None where the plan cannot say what it should be."""
        return self._compute(model, dict(inputs))

    @property
    def shows_embeddings(self) -> bool:
        """Whether training keeps the embeddings that it computes."""
        return False

    def watched(self, batch: TrainedBatch | None) -> AbstractContextManager[Any]:
        """Keeps the embeddings of a batch while its loss is computed, where the trainer shows them."""
        return nullcontext()

    def _prepare(self) -> None:
        """Read trainer, loss and data sets as they are now. Raises BadInput where their batches cannot be planned."""
        args = self.trainer.args
        datasets = self.trainer.train_dataset
        plans = self._plan
        if not isinstance(datasets, Mapping):
            datasets = {"": datasets}
            plans = {"": plans}
        elif plans is None:
            plans = dict.fromkeys(datasets)
        if not isinstance(plans, Mapping) or plans.keys() != datasets.keys():
            raise BadInput(f"plan: expected one for each data set, as {{name: plan}} of {', '.join(datasets)}")
        self.check_trainer()
        self.check = LossCheck(half=args.bf16 or args.fp16)
        self._batches.clear()
        self.planned: dict[str, PlannedLoader] = {}
        for name, dataset in datasets.items():
            try:
                self.planned[name] = self._planned(name, dataset, plans[name])
            except BadInput as error:
                if not name:
                    raise
                raise BadInput(f"data set {name}: {error}") from error

    def _planned(self, name: str, whole: Any, plan: Any) -> PlannedLoader:
        """The planned batches of one data set."""
        check_plannable(whole)
        trainer = self.trainer
        args = trainer.args
        settings = self.loss_settings(name)
        if "seed" not in settings.model_fields_set:
            settings = settings.changed(seed=args.seed if args.data_seed is None else args.data_seed)
        if settings.first is None and self.shows_embeddings and args.max_steps <= 0 and args.num_train_epochs > 1:
            settings = settings.changed(first="random")
        ranks = rank_and_world()[1] if args.accelerator_config.split_batches else 1
        if args.train_batch_size % ranks:
            raise BadInput(f"split_batches: {args.train_batch_size} pairs cannot be split evenly between {ranks} ranks")
        dataset, collate = self.view(whole)
        named = {name: getattr(args, f"dataloader_{name}", None) for name in signature(DataLoader).parameters}
        planned = PlannedLoader(
            DataLoader(
                dataset,
                args.train_batch_size // ranks,
                collate_fn=collate,
                **{name: value for name, value in named.items() if value is not None},
            ),
            plan,
            settings,
            embed=self._embed,
            model=trainer.model,
            log=self._log,
            precision=trainer.compute_loss_context_manager,
            check=self.check,
            batches=self._batches,
            lengths=partial(self.lengths, dataset),
        )
        if planned.planner is not None:
            planned.planner.name = name
            planned.planner.labels = self.labels(dataset, planned.sampler.loss_batch_size)
        return planned

    def _log(self, figures: dict[str, float]) -> None:
        self.history.append(figures)
        self.trainer.log(dict(figures))  # a copy: trainers add to what they log

    def _train_on(self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        """The trainer's `train`; a run that resumes goes on with the plans of its checkpoint."""
        folder = resume_from_checkpoint
        if folder is True:
            folder = get_last_checkpoint(self.trainer.args.output_dir)  # type: ignore[no-untyped-call]
        self._saved = {}
        if folder:
            for path in Path(folder).glob("gcbs.*.npz"):
                try:
                    with open_file(str(path)) as file, np.load(file) as arrays:
                        state = {name: value if value.ndim else value.item() for name, value in arrays.items()}
                except (OSError, EOFError, ValueError, TypeError, RuntimeError, BadZipFile) as error:
                    raise BadInput(f"{path}: damaged; resume from another checkpoint") from error
                self._saved[unquote(path.stem.removeprefix("gcbs."))] = state
        return self._train(resume_from_checkpoint, *args, **kwargs)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save the plans that this run made, and what plans are for, beside the checkpoint's trainer_state.json."""
        folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
        for name, planned in self.planned.items():
            sampler = planned.sampler
            if args.should_save and folder.is_dir():  # a search has folders of its own
                np.savez(folder / f"gcbs.{quote(name, '')}.npz", **sampler.state_dict(0))

    def on_train_begin(self, args: Any, state: Any, control: Any, **trained: Any) -> None:
        """Go on with the checkpoint's plans in the middle of an epoch. Raises BadInput where that is not possible."""
        self.check.over = state.global_step > 0
        middle = math.modf((state.epoch or 0.0) + _ROUNDING)[0] > 2 * _ROUNDING
        self._skips = middle
        steps = math.ceil(len(trained["train_dataloader"]) / args.gradient_accumulation_steps)
        if not middle and state.global_step % steps == 0:  # neither as saved nor as the trainer counts steps now
            return
        names = sorted(self.planned.keys() & self._saved.keys())
        if not names and self._plan is None:
            raise BadInput(
                "resume_from_checkpoint: found a checkpoint from the middle of an epoch, without its plan: rows would "
                "be missed or repeated; resume from the end of an epoch"
            )
        for name in names:
            self.planned[name].sampler.load_state_dict(self._saved[name])

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        """From the next epoch on, the batches trained are those that the loader is asked for; none is skipped."""
        self._batches.clear()
        self._skips = False

    def _loader(self) -> "DataLoader[Any]":
        """The train loader. The samplers deal the batches to ranks, so that accelerate has nothing to prepare."""
        self._prepare()
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
        batch = None
        if model.training and self._batches and not self._skips:
            batch = self._batches.popleft()
        if batch is not None and self.check.is_due:
            self._check_loss(batch, model, inputs)
        with self.watched(batch):
            return self._compute(model, inputs, *args, **kwargs)

    def _check_loss(self, batch: TrainedBatch, model: Any, inputs: Any) -> None:
        with torch.no_grad(), evaluating(model):
            loss = self.clean_loss(batch.planner.name, model, inputs)
            if loss is not None:
                self.check.compare(batch, float(loss))
                return
        self.check.over = True
        if self.trainer.is_world_process_zero():
            logger.warning("check skipped: %s", type(self.loss_module(batch.planner.name)).__name__)
