"""Lightning: one device, or its own DDP launcher on the CPU; a resume; a plan each epoch; what it must refuse."""

import logging
import os
import sys
import warnings

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader
from toy_pairs import TEMPERATURE, Pairs, Record, Towers, contrast, gathered, leave, must_refuse, pattern_beside

from gcbs_cli.trainers import EpochPlanner, LossCheck, PlannedBatchSampler
from gcbs_cli.trainers.lightning import PlannedCallback, PlannedDataModule

RANKS, PLAN, FOLDER = int(sys.argv[1]), sys.argv[2], sys.argv[3]


class Module(pl.LightningModule):
    def __init__(self, gather=False):
        super().__init__()
        self.towers, self.gather, self.record = Towers(), gather, Record()

    def training_step(self, batch, number):
        x, y = self.towers(batch["x"], batch["y"])
        loss = contrast(gathered(x), gathered(y)) if self.gather else contrast(x, y)
        self.record.add(self.current_epoch, batch["row"], float(loss.detach()))
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer_with(callbacks=(), **settings):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    many = {"strategy": "ddp", "devices": RANKS, "use_distributed_sampler": False} if RANKS > 1 else {"devices": 1}
    settings = {"max_epochs": 2, "enable_checkpointing": False} | many | quiet | settings
    return pl.Trainer(accelerator="cpu", callbacks=list(callbacks), **settings)


def fit(name, *, plan=PLAN, gather=False, workers=0, replan=False, keep=False, resume=None, **trainer_settings):
    module = Module(gather)
    settings, embed = {"shuffle_batches": True, "gather": gather}, module.towers.embed
    data = PlannedDataModule(Pairs(), plan, sampler_settings=settings, num_workers=workers)
    check = LossCheck(data, embed, temperature=TEMPERATURE, steps=3)
    planner = EpochPlanner(data, embed, temperature=TEMPERATURE, trials=2, plan_settings={"per_row": 4})
    callbacks = [PlannedCallback(data, check=check, planner=planner if replan else None)]
    steps = len(PlannedBatchSampler(PLAN, rank=0, world_size=RANKS))
    if keep:
        callbacks.append(ModelCheckpoint(FOLDER, "middle", every_n_train_steps=steps + 2, save_top_k=-1))
    trainer = trainer_with(callbacks, enable_checkpointing=keep, **trainer_settings)
    trainer.fit(module, data, ckpt_path=resume)
    if resume is None:
        assert [found.agrees for found in check.comparisons] == [True] * len(check.comparisons)
        assert len(check.comparisons) >= 2
    if replan:
        assert [figures.epoch for figures in planner.history] == [0, 1]
        module.record.steps["plans"] = [[data.sampler.plan.perm.tolist(), 0.0]]
    module.record.save(FOLDER, name, trainer.global_rank)


def with_lightnings_sampler():
    """A loader of one's own, without the data module: Lightning then makes its own batch sampler of ours."""
    sampler = PlannedBatchSampler(PLAN, rank=0, world_size=RANKS)
    loader = DataLoader(Pairs(), batch_sampler=sampler)
    trainer_with(use_distributed_sampler=True).fit(Module(), loader)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    warnings.filterwarnings("error", message="step .*the trainer's loss")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    fit("whole", keep=True)
    fit("resumed", resume=os.path.join(FOLDER, "middle.ckpt"))
    fit("replanned", replan=True, workers=1)
    if RANKS == 1:
        fit("pattern", plan=pattern_beside(PLAN), workers=1)
        fit("accumulated", accumulate_grad_batches=2)
    if RANKS > 1:
        fit("gather", gather=True)
        distributed = trainer_with(use_distributed_sampler=True)
        must_refuse("use_distributed_sampler=False", distributed.fit, Module(), PlannedDataModule(Pairs(), PLAN))
        must_refuse("use_distributed_sampler=False", with_lightnings_sampler)
    leave()
