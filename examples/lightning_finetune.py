"""Fine-tune two towers with Lightning, with a new plan each epoch from the current model's embeddings.

python lightning_finetune.py pairs.npz [--devices 2]
pairs.npz holds `x` and `y`, (N, d) each: features of both sides of the pairs.
"""

import argparse

import lightning.pytorch as pl
import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

from gcbs_cli.trainers import EpochPlanner, LossCheck
from gcbs_cli.trainers.lightning import PlannedCallback, PlannedDataModule

TEMPERATURE = 0.05


class Contrastive(pl.LightningModule):
    def __init__(self, dim):
        super().__init__()
        self.left, self.right = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, y):
        return nn.functional.normalize(x + self.left(x), dim=-1), nn.functional.normalize(y + self.right(y), dim=-1)

    def training_step(self, batch, number):
        x, y = self(*batch)
        logits = x @ y.T / TEMPERATURE
        target = torch.arange(len(x), device=logits.device)
        return (nn.functional.cross_entropy(logits, target) + nn.functional.cross_entropy(logits.T, target)) / 2

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    asked = parser.parse_args()
    torch.manual_seed(0)
    x, y = (torch.from_numpy(np.load(asked.pairs)[side]) for side in ("x", "y"))
    model = Contrastive(x.shape[1])

    def embed(rows=slice(None)):
        with torch.no_grad():
            return model(x[rows].to(model.device), y[rows].to(model.device))

    # Any order will do to begin with: the planner gives the sampler a new one before each epoch.
    data = PlannedDataModule(TensorDataset(x, y), range(len(x)), asked.batch_size)
    planner = EpochPlanner(data, embed, temperature=TEMPERATURE, log=print, plan_settings={"preset": "train"})
    check = LossCheck(data, embed, temperature=TEMPERATURE)
    trainer = pl.Trainer(
        max_epochs=asked.epochs,
        accelerator="cpu",
        devices=asked.devices,
        strategy="ddp" if asked.devices > 1 else "auto",
        use_distributed_sampler=False,  # the plan is dealt to ranks already
        callbacks=[PlannedCallback(data, planner=planner, check=check)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(model, data)


if __name__ == "__main__":
    main()
