"""torchrun: DistributedDataParallel on the toy pairs, whole batches and gathered ones, and a resume."""

import os
import sys

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from toy_pairs import TEMPERATURE, Pairs, Record, Towers, contrast, gathered, leave, must_refuse, pattern_beside

from gcbs_cli.trainers import LossCheck, PlannedBatchSampler


def train(name: str, plan: str, folder: str, *, gather: bool = False) -> None:
    rank = dist.get_rank()
    dataset, record, states = Pairs(), Record(), {}
    model = DistributedDataParallel(Towers())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = PlannedBatchSampler(plan, gather=gather, shuffle_batches=True, dataset=dataset)
    loader = DataLoader(dataset, batch_sampler=sampler, num_workers=1)

    check = LossCheck(sampler, model.module.embed, temperature=TEMPERATURE, steps=3)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for step, batch in enumerate(loader):
            if epoch == 0:
                expected = check.expect(step, rank)
            x, y = model(batch["x"], batch["y"])
            loss = contrast(gathered(x), gathered(y)) if gather else contrast(x, y)
            record.add(epoch, batch["row"], loss.item())
            if epoch == 0 and step < check.steps:
                assert check.compare(step, loss.item(), expected).agrees
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step == 0:
                states[epoch] = sampler.state_dict(step=1)
    resumed = PlannedBatchSampler(plan, gather=gather, shuffle_batches=True, dataset=dataset)
    resumed.load_state_dict(states[1])
    rest = Record()
    for batch in DataLoader(dataset, batch_sampler=resumed):
        rest.add(1, batch["row"], 0.0)
    record.save(folder, name, rank)
    rest.save(folder, "resumed" if name == "whole" else f"{name}-resumed", rank)


def refuse_different_plans(folder: str) -> None:
    """The first rank finds a plan of the next epoch that the others do not see yet."""
    mine = os.path.join(folder, f"rank-{dist.get_rank()}")
    os.mkdir(mine)
    rows = np.arange(80)
    np.save(os.path.join(mine, "perm-0.npy"), rows)
    if dist.get_rank() == 0:
        np.save(os.path.join(mine, "perm-1.npy"), rows[::-1])
    sampler = PlannedBatchSampler(os.path.join(mine, "perm-{epoch}.npy"), 8)
    must_refuse("the ranks found different plans", sampler.set_epoch, 1)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    plan, folder = sys.argv[1:]
    train("whole", plan, folder)
    train("gather", plan, folder, gather=True)
    train("pattern", pattern_beside(plan), folder)
    refuse_different_plans(folder)
    leave()
