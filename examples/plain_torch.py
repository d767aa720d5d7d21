"""Fine-tune two towers in plain PyTorch, with a new plan each epoch from the current model's embeddings.

One process:   python plain_torch.py pairs.npz
Several:       torchrun --nproc-per-node 2 plain_torch.py pairs.npz
pairs.npz holds `x` and `y`, (N, d) each: features of both sides; a folder with x.npy and y.npy does too.
"""

import argparse

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before init: imported later, it holds the process group open for ever
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from gcbs_cli.trainers import EpochPlanner, LossCheck, PlannedBatchSampler

TEMPERATURE = 0.05


def contrastive_loss(x, y):
    logits = x @ y.T / TEMPERATURE
    target = torch.arange(len(x))
    return (nn.functional.cross_entropy(logits, target) + nn.functional.cross_entropy(logits.T, target)) / 2


class Towers(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.left, self.right = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, y):
        return nn.functional.normalize(x + self.left(x), dim=-1), nn.functional.normalize(y + self.right(y), dim=-1)


def train(asked, several):
    torch.manual_seed(0)
    packed = np.load(asked.pairs) if asked.pairs.endswith(".npz") else None
    x, y = (torch.from_numpy(packed[s] if packed else np.load(f"{asked.pairs}/{s}.npy")).float() for s in "xy")
    dataset = TensorDataset(x, y)
    towers = Towers(x.shape[1])
    model = nn.parallel.DistributedDataParallel(towers) if several else towers
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def embed(rows=slice(None)):
        with torch.no_grad():
            return towers(x[rows], y[rows])

    # Any order will do to begin with: the planner gives the sampler a new one before each epoch.
    sampler = PlannedBatchSampler(range(len(x)), asked.batch_size, shuffle_batches=True, dataset=dataset)
    planner = EpochPlanner(sampler, embed, temperature=TEMPERATURE, plan_settings={"preset": "train"})
    check = LossCheck(sampler, embed, temperature=TEMPERATURE)
    loader = DataLoader(dataset, batch_sampler=sampler)
    for epoch in range(asked.epochs):
        figures = planner.start_epoch(epoch)
        if sampler.rank == 0:
            print(f"epoch {epoch}: L_global {figures.global_loss:.4f}, L_train {figures.train_loss:.4f}, ", end="")
            print(f"gap {figures.gap:.4f}, reduction {figures.reduction:.4f}")
        for step, (left, right) in enumerate(loader):
            loss = contrastive_loss(*model(left, right))
            if epoch == 0:
                check.observe(step, loss.item(), sampler.rank)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    several = dist.is_torchelastic_launched()
    if several:
        dist.init_process_group("gloo")
    train(parser.parse_args(), several)
    if several:
        dist.destroy_process_group()  # after the model is gone; a process that ends with its threads at work may abort
