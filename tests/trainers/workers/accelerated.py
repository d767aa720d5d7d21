"""accelerate launch: every combination of its dealing settings, each with whole planned batches or a refusal."""

import os
import sys

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import DataLoaderConfiguration
from torch.utils.data import DataLoader
from toy_pairs import Pairs, Record, Towers, combinations, contrast, gathered, leave, must_refuse, pattern_beside

from gcbs_cli.trainers import PlannedBatchSampler
from gcbs_cli.trainers.accelerate import planned_loader, start_at


def accelerator_with(**settings: bool) -> Accelerator:
    return Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**settings))


def train(name: str, plan: str, folder: str, split=False, dispatch=False, even=True, gather=False) -> None:
    accelerator = accelerator_with(split_batches=split, dispatch_batches=dispatch, even_batches=even)
    dataset, record = Pairs(), Record()
    model = Towers()
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    loader = planned_loader(accelerator, dataset, plan, gather=gather, shuffle_batches=True)
    for epoch in range(2):
        loader.set_epoch(epoch)
        for batch in loader:
            x, y = model(batch["x"], batch["y"])
            loss = contrast(gathered(x), gathered(y)) if gather else contrast(x, y)
            record.add(epoch, batch["row"], loss.item())
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
    start_at(loader, 1, 1)
    for batch in loader:
        record.add("resumed", batch["row"], 0.0)
    loader.set_epoch(1)
    skipping = skip_first_batches(loader, 1)
    if dispatch and not split:
        must_fail(skipping, "skips single batches", accelerator)
    else:
        for batch in skipping:
            record.add("skipped", batch["row"], 0.0)
    record.save(folder, name, accelerator.process_index)


def must_not_read(plan: str, said: str, *, yields: str = "share", gather: bool = False, **settings: bool) -> None:
    accelerator = accelerator_with(**settings)
    sampler = PlannedBatchSampler(plan, yields=yields, gather=gather)
    loader = accelerator.prepare(DataLoader(Pairs(), batch_sampler=sampler))
    must_fail(loader, said, accelerator)


def must_fail(loader: DataLoader, said: str, accelerator: Accelerator) -> None:
    """With dispatch_batches the first rank alone reads, and the others would wait for it."""
    if accelerator.is_main_process or not accelerator.dispatch_batches:
        must_refuse(said, next, iter(loader))


if __name__ == "__main__":
    torch.set_num_threads(1)
    plan, folder = sys.argv[1:]
    for dealing in combinations(int(os.environ["WORLD_SIZE"])):
        train(str(dealing), plan, folder, *dealing)
    train("pattern", pattern_beside(plan), folder)
    must_not_read(plan, "dealt already")
    must_not_read(plan, "split each planned batch", yields="batches", split_batches=True)
    must_not_read(plan, "has split_batches=False", yields="batches", gather=True)
    leave()
