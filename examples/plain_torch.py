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

import gcbs_cli as gcbs

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
    towers = Towers(x.shape[1])
    model = nn.parallel.DistributedDataParallel(towers) if several else towers
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(x, y), batch_size=asked.batch_size, shuffle=True)
    log = None if several and dist.get_rank() else print  # every rank calls it, the first one prints
    batches = gcbs.planned(loader, embed=lambda batch: towers(*batch), model=towers, temperature=TEMPERATURE, log=log)
    for _ in range(asked.epochs):
        for left, right in batches:
            x, y = model(left, right)
            batches.saw(x, y)  # so that the next plan needs no pass of the model
            loss = contrastive_loss(x, y)
            batches.check_loss(loss)
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
