"""torchrun or accelerate launch: a loop of one's own over `planned`, with DistributedDataParallel, and a resume."""

import os
import sys

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from toy_pairs import BATCH, TEMPERATURE, Pairs, Record, Towers, begin, contrast, leave, must_refuse, pattern_beside

import gcbs_cli as gcbs
from gcbs_cli.trainers import PlannedBatchSampler


def train(name, folder, plan=None, *, gather=False, workers=1):
    towers, record, states = Towers(), Record(), {}
    model = DistributedDataParallel(towers) if dist.is_initialized() else towers
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ranks = dist.get_world_size() if gather else 1
    loader = DataLoader(Pairs(), batch_size=BATCH // ranks, shuffle=True, num_workers=workers)
    embed = None if plan else lambda batch: towers(batch["x"], batch["y"])

    def planned():
        return gcbs.planned(loader, plan, embed=embed, model=towers, gather=gather, temperature=TEMPERATURE)

    batches = planned()
    for epoch in range(2):
        for step, batch in enumerate(batches):
            x, y = model(batch["x"], batch["y"])
            loss = contrast(x, y, gather)
            record.add(epoch, batch["row"], loss.item())
            batches.check_loss(loss)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step == 0:
                states[epoch] = batches.state_dict()
    assert [found.agrees for found in batches.check.comparisons] == ([] if plan else [True, True])
    if batches.planner is not None:
        record.note_plan(batches.sampler.plan.perm, batches.planner.history)
    again, rest = planned(), Record()
    again.load_state_dict(states[1])
    for batch in again:
        rest.add(1, batch["row"], 0.0)
    record.save(folder, name, batches.sampler.rank)
    rest.save(folder, f"{name}-resumed", batches.sampler.rank)


def refuse_different_plans(folder):
    """The first rank finds a plan of the next epoch that the others do not see yet."""
    mine = os.path.join(folder, f"rank-{dist.get_rank()}")
    os.mkdir(mine)
    rows = np.arange(80)
    np.save(os.path.join(mine, "perm-0.npy"), rows)
    if dist.get_rank() == 0:
        np.save(os.path.join(mine, "perm-1.npy"), rows[::-1])
    sampler = PlannedBatchSampler(os.path.join(mine, "perm-{epoch}.npy"), 8)
    must_refuse("the ranks differ in plan_hash", sampler.set_epoch, 1)


def refuse_an_embedding_of_too_few_rows():
    """The rank that fails ends the others, too, instead of leaving them in a wait."""
    loader = DataLoader(Pairs(), batch_size=BATCH)
    wrong = gcbs.planned(loader, embed=lambda batch: (batch["x"][:1], batch["y"][:1]))
    must_refuse("for both", next, iter(wrong))


if __name__ == "__main__":
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    begin()
    plan, folder = sys.argv[1:]
    train("whole", folder, plan)
    train("replanned", folder, workers=0)
    train("pattern", folder, pattern_beside(plan))
    if dist.is_initialized():
        train("gather", folder, plan, gather=True)
        train("gathered", folder, gather=True)
        refuse_different_plans(folder)
    refuse_an_embedding_of_too_few_rows()
    leave()
