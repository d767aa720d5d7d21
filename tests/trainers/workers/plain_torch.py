"""torchrun: DistributedDataParallel on the toy pairs, whole batches and gathered ones, and a resume."""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from toy_pairs import TEMPERATURE, Pairs, Record, Towers, contrast, gathered, leave

from gcbs_cli.trainers import LossCheck, PlannedBatchSampler


def train(plan: str, folder: str, *, gather: bool) -> None:
    name, rank = ("gather" if gather else "whole"), dist.get_rank()
    dataset, record, states = Pairs(), Record(), {}
    model = DistributedDataParallel(Towers())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = PlannedBatchSampler(plan, gather=gather, shuffle_batches=True, dataset=dataset)
    loader = DataLoader(dataset, batch_sampler=sampler, num_workers=1)

    def embed(rows):  # the model of this moment, both sides
        with torch.no_grad():
            return model.module(torch.from_numpy(dataset.x[rows]), torch.from_numpy(dataset.y[rows]))

    check = LossCheck(sampler, embed, temperature=TEMPERATURE, steps=3)
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
    for batch in DataLoader(dataset, batch_sampler=resumed):
        record.add("resumed", batch["row"], 0.0)
    record.save(folder, name, rank)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    for gathers in (False, True):
        train(sys.argv[1], sys.argv[2], gather=gathers)
    leave()
