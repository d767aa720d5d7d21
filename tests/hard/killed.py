"""torchrun, started anew by hand or by itself after a rank was killed: all go on from the state that was saved last."""

import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from gcbs_cli.trainers import PlannedBatchSampler

DEATHS = {(0, 2, 1), (0, 3, 0), (1, 1, 1)}
"""Epoch, step and rank; every second one dies before the state is saved."""

if __name__ == "__main__":
    plan, folder = sys.argv[1], Path(sys.argv[2])
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, saved = dist.get_rank(), folder / "state.pt"
    sampler = PlannedBatchSampler(plan, shuffle_batches=True, seed=3)
    if saved.exists():
        sampler.load_state_dict(torch.load(saved))
    for epoch in range(sampler.epoch, 2):
        sampler.set_epoch(epoch)
        for rows in sampler:
            step = sampler.state_dict()["step"]
            with (folder / f"rank-{rank}.jsonl").open("a") as file:
                file.write(json.dumps([epoch, step, rows]) + "\n")
            mark = folder / f"died-{epoch}-{step}-{rank}"
            dies = (epoch, step, rank) in DEATHS and not mark.exists()
            if dies and step % 2:
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            dist.barrier()
            if rank == 0:
                torch.save(sampler.state_dict(), folder / "new.pt")
                (folder / "new.pt").replace(saved)
            dist.barrier()
            if dies:
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
    dist.destroy_process_group()
