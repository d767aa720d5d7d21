"""Each framework's own trainer on planned batches: in one process, and under its launcher with two and four."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from launching import Launch, torchrun
from numpy.typing import NDArray
from toy_pairs import (
    BATCH,
    Records,
    check_epoch,
    check_plan_of_each_epoch,
    check_replanned,
    load_records,
    losses_seen,
)

from gcbs_cli.trainers import PlannedBatchSampler

Perm = NDArray[np.int64]

NEEDS = {
    "plain_torch": [],
    "lit": ["lightning"],
    "trained": ["transformers", "accelerate", "datasets"],
    "sentences": ["sentence_transformers", "accelerate", "datasets"],
}


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("worker", ["plain_torch", "lit", "trained", "sentences"])
def test_trains_on_whole_planned_batches(
    worker: str, ranks: int, launch: Launch, plan_path: Path, perm: Perm, plan_of_next_epoch: Perm
) -> None:
    if not all(map(find_spec, NEEDS[worker])) or (worker, ranks) == ("plain_torch", 1):
        pytest.skip("not installed, or tried without a launch")
    own_launcher = worker == "lit"
    words = [ranks, plan_path] if own_launcher else [plan_path]
    folder = launch(f"{worker}.py", *words, launcher=None if own_launcher or ranks == 1 else torchrun(ranks))
    modes = {path.name.split(".")[0] for path in folder.glob("*.json")}
    found = {mode: load_records(folder, mode, ranks) for mode in modes}
    assert {"whole", "resumed"} | ({"gather"} if ranks > 1 else {"pattern"}) <= modes
    dealt = {"seed": 0} if own_launcher or worker == "plain_torch" else {"seed": 42, "yields": "batches"}
    for mode in modes & {"whole", "gather", "uneven", "split", "dispatch"}:
        gather = mode in ("gather", "split")
        sampler = PlannedBatchSampler(
            perm,
            BATCH,
            shuffle_batches=True,
            rank=0,
            world_size=ranks,
            gather=gather,
            **dealt,  # type: ignore[arg-type]
        )
        for epoch in (0, 1):
            sampler.set_epoch(epoch)
            seen = losses_seen([record[str(epoch)] for record in found[mode]], gather=gather)
            check_epoch(seen, perm, set(sampler.left_out().tolist()))
            assert seen[0] == sampler.step_rows(0)[0].tolist()  # the same order on each run
    for before, after in zip(found["whole"], found["resumed"], strict=True):
        first = 2 if own_launcher else 1
        assert [rows for rows, _ in after.get("1", [])] == [rows for rows, _ in before["1"]][first:]
    for mode, plans in (("pattern", [perm, plan_of_next_epoch]), ("accumulated", [perm, perm])):
        if mode in found:
            check_plan_of_each_epoch(found[mode], plans)
    if "replanned" in found:
        check_replanned(found["replanned"])
    if "several" in found:
        check_several(found["several"], perm, ranks)


def check_several(records: Records, perm: Perm, ranks: int) -> None:
    """Every batch is a planned one of one of the two datasets, whose rows follow each other."""
    for epoch in "01":
        seen = losses_seen([record[epoch] for record in records], gather=False)
        for plan in (perm, np.random.default_rng(1).permutation(50) + len(perm)):
            mine = [batch for batch in seen if batch[0] in plan]
            full = len(plan) // BATCH
            trained = {row for batch in mine for row in batch}
            assert len(plan) - len(trained) == (0 if ranks == 1 else len(plan) - (full - full % ranks) * BATCH)
            check_epoch(mine, plan, set(plan.tolist()) - trained)
