"""Plain PyTorch under torchrun: DistributedDataParallel with two and four processes."""

from pathlib import Path

import pytest
from launching import Launch, launches, torchrun
from numpy.typing import NDArray
from toy_pairs import check_epoch, check_plan_of_each_epoch, load_records, losses_seen

from gcbs_cli.trainers import PlannedBatchSampler

pytestmark = launches()


@pytest.mark.parametrize("ranks", [2, 4])
def test_plain_torch_under_torchrun(
    ranks: int, launch: Launch, plan_path: Path, perm: NDArray, plan_of_next_epoch: NDArray
) -> None:  # type: ignore[type-arg]
    folder = launch("plain_torch.py", plan_path, launcher=torchrun(ranks))
    check_plan_of_each_epoch(load_records(folder, "pattern", ranks), [perm, plan_of_next_epoch])
    for mode in ("whole", "gather"):
        gather = mode == "gather"
        records = load_records(folder, mode, ranks)
        sampler = PlannedBatchSampler(perm, 8, shuffle_batches=True, rank=0, world_size=ranks, gather=gather)
        for epoch in (0, 1):
            sampler.set_epoch(epoch)
            seen = losses_seen([record[str(epoch)] for record in records], gather=gather)
            check_epoch(seen, perm, set(sampler.left_out().tolist()))
            assert seen[0] == sampler.step_rows(0)[0].tolist()  # the same order on each run
        for record in records:
            assert [rows for rows, _ in record["resumed"]] == [rows for rows, _ in record["1"]][1:]
