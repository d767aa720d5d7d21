"""sentence-transformers' own trainer, in one process and under torchrun with two and four."""

from pathlib import Path

import numpy as np
import pytest
from launching import Launch, launches, torchrun
from numpy.typing import NDArray
from toy_pairs import check_epoch, check_plan_of_each_epoch, load_records, losses_seen

from gcbs_cli.trainers import PlannedBatchSampler

pytestmark = launches("sentence_transformers", "accelerate", "datasets")


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_sentence_transformers(
    ranks: int, launch: Launch, plan_path: Path, perm: NDArray, plan_of_next_epoch: NDArray
) -> None:  # type: ignore[type-arg]
    folder = launch("sentences.py", plan_path, launcher=torchrun(ranks) if ranks > 1 else None)
    if ranks == 1:
        check_plan_of_each_epoch(load_records(folder, "pattern", ranks), [perm, plan_of_next_epoch])
    modes = {1: ["whole"], 2: ["whole", "gather", "split"], 4: ["whole", "gather"]}[ranks]
    for mode in modes:
        records = load_records(folder, mode, ranks)
        settings = {"gather": mode != "whole", "shuffle_batches": True, "seed": 42, "yields": "batches"}
        sampler = PlannedBatchSampler(perm, 8, rank=0, world_size=ranks, **settings)  # type: ignore[arg-type]
        for epoch in (0, 1):
            sampler.set_epoch(epoch)
            seen = losses_seen([record[str(epoch)] for record in records], gather=mode != "whole")
            check_epoch(seen, perm, set(sampler.left_out().tolist()))
            assert seen[0] == sampler.step_rows(0)[0].tolist()
    for before, after in zip(
        load_records(folder, "whole", ranks), load_records(folder, "whole-resumed", ranks), strict=True
    ):
        assert [rows for rows, _ in after["1"]] == [rows for rows, _ in before["1"]][1:]
        np.testing.assert_allclose([loss for _, loss in after["1"]], [loss for _, loss in before["1"]][1:], atol=1e-4)
    if ranks < 4:
        check_several(load_records(folder, "several", ranks), perm, ranks)


def check_several(records: list[dict[str, list[tuple[list[int], float]]]], perm: NDArray, ranks: int) -> None:  # type: ignore[type-arg]
    """Every batch is a planned one of one of the two datasets, whose rows follow each other."""
    plans = (perm, np.random.default_rng(1).permutation(50) + len(perm))
    for epoch in "01":
        seen = losses_seen([record[epoch] for record in records], gather=False)
        for plan, size in zip(plans, (8, 8), strict=True):
            mine = [batch for batch in seen if batch[0] in plan]
            full = len(plan) // size
            expected_out = 0 if ranks == 1 else len(plan) - (full - full % ranks) * size
            trained = {row for batch in mine for row in batch}
            assert len(plan) - len(trained) == expected_out
            check_epoch(mine, plan, set(plan.tolist()) - trained)
