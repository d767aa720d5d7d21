"""Each framework's own trainer on planned batches: in one process, and under its launcher with two and four."""

from importlib.util import find_spec

import numpy as np
import pytest
from launching import torchrun
from toy_pairs import (
    BATCH,
    ROWS,
    check_epoch,
    check_plan_of_each_epoch,
    check_replanned,
    check_resumed,
    load_records,
    losses_seen,
)

from gcbs_cli.trainers import PlannedBatchSampler

NEEDS = {
    "plain_torch": ["accelerate"],
    "lit": ["lightning"],
    "trained": ["transformers", "accelerate", "datasets"],
    "sentences": ["sentence_transformers", "accelerate", "datasets"],
}
SEEDS = {"trained": 42, "sentences": 42}
"""Of the order of batches, where the trainer has one of its own."""
GATHERING = ("gather", "split", "gathered", "several-gathered")


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("worker", ["plain_torch", "lit", "trained", "sentences"])
def test_trains_on_whole_planned_batches(worker, ranks, launch, plan_path, perm, plan_of_next_epoch):
    if not all(map(find_spec, NEEDS[worker])):
        pytest.skip("not installed")
    own_launcher = worker == "lit"
    words = [ranks, plan_path] if own_launcher else [plan_path]
    folder = launch(f"{worker}.py", *words, launcher=None if own_launcher or ranks == 1 else torchrun(ranks))
    modes = {path.name.split(".")[0] for path in folder.glob("*.json")}
    found = {mode: load_records(folder, mode, ranks) for mode in modes}
    assert {"whole", "whole-resumed", "replanned", "replanned-resumed"} <= modes
    assert ({"gather", "gathered"} if ranks > 1 else {"pattern"}) <= modes
    for mode in modes & {"whole", "gather", "uneven", "split", "split-whole", "dispatch"}:
        drop_last = worker == "sentences" and ranks > 1  # its trainer asks for that
        sampler = PlannedBatchSampler(
            perm, BATCH, drop_last, True, SEEDS.get(worker, 0), rank=0, world_size=ranks, gather=mode in GATHERING
        )
        for epoch in (0, 1):
            sampler.set_epoch(epoch)
            seen = losses_seen([record[str(epoch)] for record in found[mode]], gather=mode in GATHERING)
            check_epoch(seen, perm, set(sampler.left_out().tolist()))
            assert seen[0] == sampler.step_rows(0).tolist()  # the same order on each run
    for mode in modes & {"replanned", "workers", "gathered"}:
        check_replanned(found[mode], gather=mode in GATHERING)
    for mode in modes:
        if f"{mode}-resumed" in modes and mode not in ("ended", "last-step"):
            steps = 2 if own_launcher and ranks < 4 else 1
            check_resumed(found[mode], found[f"{mode}-resumed"], steps, in_order=mode != "refreshed")
    for mode in modes & {"ended", "last-step"}:  # saved at the end of an epoch: the next one is another, and whole
        (before,), (after,) = found[mode], found[f"{mode}-resumed"]
        assert list(before) == ["0", "plans"]
        assert list(after) == ["1"]
        assert sorted(row for rows, _ in after["1"] for row in rows) == list(range(ROWS))
    for mode, plans in (("pattern", [perm, plan_of_next_epoch]), ("accumulated", [perm, perm])):
        if mode in found:
            check_plan_of_each_epoch(found[mode], plans)
    if "several" in found:
        check_several(found["several"], perm, ranks)


def check_several(records, perm, ranks):
    """Every batch is a planned one of one of the two data sets, which are as long and follow each other."""
    for epoch in "01":
        seen = losses_seen([record[epoch] for record in records], gather=False)
        for plan in (perm, np.random.default_rng(1).permutation(ROWS) + ROWS):
            mine = [batch for batch in seen if batch[0] in plan]
            trained = {row for batch in mine for row in batch}
            batches = -(-ROWS // BATCH)
            assert len(mine) == batches - batches % ranks
            check_epoch(mine, plan, set(plan.tolist()) - trained)
