"""Fine-tune two towers with Lightning, with a new plan each epoch from the current model's embeddings.

python lightning_finetune.py pairs.npz [--devices 2]
pairs.npz holds `x` and `y`, (N, d) each: features of both sides; a folder with x.npy and y.npy does too.
"""

import argparse

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gcbs_cli as gcbs

TEMPERATURE = 0.05


class Contrastive(pl.LightningModule):
    def __init__(self, dim):
        super().__init__()
        self.left, self.right = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, y):
        return nn.functional.normalize(x + self.left(x), dim=-1), nn.functional.normalize(y + self.right(y), dim=-1)

    def training_step(self, batch, number):
        x, y = self(*batch)
        self.trainer.train_dataloader.saw(x, y)  # so that the next plan needs no pass of the model
        logits = x @ y.T / TEMPERATURE
        target = torch.arange(len(x), device=logits.device)
        return (nn.functional.cross_entropy(logits, target) + nn.functional.cross_entropy(logits.T, target)) / 2

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs")
    parser.add_argument("--output", default="finetuned")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    asked = parser.parse_args()
    torch.manual_seed(0)
    packed = np.load(asked.pairs) if asked.pairs.endswith(".npz") else None
    x, y = (torch.from_numpy(packed[s] if packed else np.load(f"{asked.pairs}/{s}.npy")).float() for s in "xy")
    model = Contrastive(x.shape[1])
    trainer = pl.Trainer(
        max_epochs=asked.epochs,
        accelerator="cpu",
        devices=asked.devices,
        strategy="ddp" if asked.devices > 1 else "auto",
        logger=CSVLogger(asked.output),
        enable_progress_bar=False,
    )
    gcbs.plan_batches(trainer, embed=lambda batch: model(*batch), temperature=TEMPERATURE)
    trainer.fit(model, DataLoader(TensorDataset(x, y), batch_size=asked.batch_size, shuffle=True))


if __name__ == "__main__":
    main()
