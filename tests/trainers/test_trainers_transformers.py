"""transformers' Trainer, in one process and under torchrun with two and four."""

from pathlib import Path

import numpy as np
import pytest
from launching import Launch, launches, torchrun
from numpy.typing import NDArray
from toy_pairs import check_epoch, check_plan_of_each_epoch, check_replanned, load_records, losses_seen

from gcbs_cli.trainers import PlannedBatchSampler

pytestmark = launches("transformers", "accelerate", "datasets")


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_trainer(ranks: int, launch: Launch, plan_path: Path, perm: NDArray, plan_of_next_epoch: NDArray) -> None:  # type: ignore[type-arg]
    folder = launch("trained.py", plan_path, launcher=torchrun(ranks) if ranks > 1 else None)
    if ranks == 1:
        check_plan_of_each_epoch(load_records(folder, "pattern", ranks), [perm, plan_of_next_epoch])
        check_plan_of_each_epoch(load_records(folder, "accumulated", ranks), [perm, perm])
    for mode in ["whole", "gather", "uneven", "split", "dispatch"] if ranks > 1 else ["whole"]:
        gather = mode in ("gather", "split")
        records = load_records(folder, mode, ranks)
        settings = {"gather": gather, "shuffle_batches": True, "seed": 42, "yields": "batches"}
        sampler = PlannedBatchSampler(perm, 8, rank=0, world_size=ranks, **settings)  # type: ignore[arg-type]
        for epoch in (0, 1):
            sampler.set_epoch(epoch)
            seen = losses_seen([record[str(epoch)] for record in records], gather=gather)
            check_epoch(seen, perm, set(sampler.left_out().tolist()))
            assert seen[0] == sampler.step_rows(0)[0].tolist()
    whole, resumed = load_records(folder, "whole", ranks), load_records(folder, "whole-resumed", ranks)
    for before, after in zip(whole, resumed, strict=True):
        assert [rows for rows, _ in after["1"]] == [rows for rows, _ in before["1"]][1:]
        np.testing.assert_allclose([loss for _, loss in after["1"]], [loss for _, loss in before["1"]][1:], atol=1e-4)
    check_replanned(load_records(folder, "replanned", ranks))
