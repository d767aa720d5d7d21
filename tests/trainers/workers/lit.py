"""Lightning with `plan_batches`: one device, or its own DDP launcher on the CPU; resumes; what it must refuse."""

import logging
import os
import sys

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader
from toy_pairs import BATCH, TEMPERATURE, Pairs, Record, Towers, begin, contrast, leave, must_refuse, pattern_beside

import gcbs_cli as gcbs
from gcbs_cli.trainers import PlannedBatchSampler

RANKS, PLAN, FOLDER = int(sys.argv[1]), sys.argv[2], sys.argv[3]
STEPS = {1: 9, 2: 4, 4: 2}[RANKS]


class Module(pl.LightningModule):
    def __init__(self, gather=False):
        super().__init__()
        self.towers, self.gather, self.record = Towers(), gather, Record()

    def training_step(self, batch, number):
        x, y = self.towers(batch["x"], batch["y"])
        loss = contrast(x, y, self.gather)
        self.record.add(self.current_epoch, batch["row"], float(loss.detach()))
        return loss

    def validation_step(self, batch, number):
        return contrast(*self.towers(batch["x"], batch["y"]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Data(pl.LightningDataModule):
    """The loaders by a module of their own, as many have them."""

    def train_dataloader(self):
        return DataLoader(Pairs(), batch_size=BATCH, shuffle=True)


def trainer_with(callbacks=(), **settings):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    many = {"strategy": "ddp", "devices": RANKS} if RANKS > 1 else {"devices": 1}
    settings = {"max_epochs": 2, "enable_checkpointing": False} | many | quiet | settings
    return pl.Trainer(accelerator="cpu", callbacks=list(callbacks), **settings)


def fit(name, plan=None, *, gather=False, size=BATCH, workers=0, keep=None, resume=None, data=None, given=None, **more):
    module = Module(gather)
    callbacks = [ModelCheckpoint(FOLDER, name, **keep)] if keep else []
    trainer = trainer_with(callbacks, enable_checkpointing=bool(keep), **more)
    embed = None if plan is not None else lambda batch: module.towers(batch["x"], batch["y"])
    settings = {"embed": embed, "temperature": TEMPERATURE, "gather": gather, **(given or {})}
    planned = gcbs.plan_batches(trainer, plan, **settings)
    loader = DataLoader(Pairs(), batch_size=size, shuffle=True, num_workers=workers)
    validation = None if data else DataLoader(Pairs(), batch_size=size)
    trainer.fit(module, None if data else loader, validation, datamodule=data, ckpt_path=resume)
    agrees = [found.agrees for found in planned.planned.check.comparisons]
    expected = [] if resume or plan is not None else [True] * 2
    begins_anew = resume and name in ("ended", "last-step")  # with the next epoch, whose losses may be checked
    assert agrees == expected or (begins_anew and agrees == [True] * 2), planned.planned.check.comparisons
    if plan is None and resume is None:
        module.record.note_plan(planned.planned.sampler.plan.perm, planned.planned.planner.history)
    module.record.save(FOLDER, name if resume is None else f"{name}-resumed", trainer.global_rank)


def bare():
    """A loader of one's own with the sampler, without plan_batches."""
    sampler = PlannedBatchSampler(PLAN, rank=0, world_size=RANKS)
    trainer_with().fit(Module(), DataLoader(Pairs(), batch_sampler=sampler))


def kept(name):
    return os.path.join(FOLDER, f"{name}.ckpt")


if __name__ == "__main__":
    begin()
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    middle = {"every_n_train_steps": STEPS + 2, "save_top_k": -1} if RANKS < 4 else {"every_n_train_steps": STEPS + 1}
    fit("whole", PLAN, keep=middle)
    fit("whole", PLAN, resume=kept("whole"))
    fit("replanned", keep=middle)
    fit("replanned", resume=kept("replanned"))
    fit("workers", workers=1, data=Data())
    if RANKS == 1:
        fit("pattern", pattern_beside(PLAN), workers=1)
        fit("accumulated", PLAN, accumulate_grad_batches=2)
        for name, moment in (("ended", {"every_n_epochs": 1}), ("last-step", {"every_n_train_steps": STEPS})):
            fit(name, keep=moment | {"save_top_k": -1}, max_epochs=1)
            fit(name, resume=kept(name))
    if RANKS > 1:
        fit("gather", PLAN, gather=True, size=BATCH // RANKS)
        fit("gathered", gather=True, size=BATCH // RANKS)
        must_refuse("use_distributed_sampler=False", bare)
    leave()
