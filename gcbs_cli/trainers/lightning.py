"""Lightning: planned batches in place of the train loader that a fit is given."""

from typing import Any

import torch

try:
    import lightning.pytorch as pl
except ModuleNotFoundError:  # the same library under its older name
    import pytorch_lightning as pl  # type: ignore[no-redef]

from gcbs_cli.settings.training import TrainingSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.embedding import Embed
from gcbs_cli.trainers.loop import PlannedLoader
from gcbs_cli.trainers.planner import LossCheck, check_source


class PlannedCallback(pl.Callback):
    """Puts a `PlannedLoader`, `planned`, in place of a trainer's train loader; `plan_batches` makes it.

    Lightning leaves its batches alone, whatever `use_distributed_sampler` says, and saves its place in checkpoints.
    """

    planned: PlannedLoader

    def __init__(self, trainer: Any, plan: Any, settings: TrainingSettings, embed: Embed | None) -> None:
        check_source(plan, embed)
        if trainer.reload_dataloaders_every_n_epochs:
            raise BadInput("reload_dataloaders_every_n_epochs: a plan orders the rows of one data set; leave it out")
        self._plan = plan
        self._settings = settings
        self._embed = embed
        trainer.callbacks.append(self)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        source = trainer.fit_loop._data_source
        embed = self._embed
        convert = trainer.precision_plugin.convert_input
        self.planned = PlannedLoader(
            source.dataloader(),
            self._plan,
            self._settings,
            embed=None if embed is None else lambda batch: embed(convert(batch)),
            model=pl_module,
            log=lambda figures: [logger.log_metrics(figures, trainer.global_step) for logger in trainer.loggers],
            precision=trainer.precision_plugin.forward_context,
            check=LossCheck(half="16" in str(trainer.precision)),
        )
        source.instance = self.planned

    def on_before_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: torch.Tensor) -> None:
        self.planned.check_loss(loss.detach() * trainer.accumulate_grad_batches)
