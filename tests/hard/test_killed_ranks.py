"""torchrun, whose ranks are killed: all go on with the batches that they would have had."""

import json
from pathlib import Path

import pytest
from launching import torchrun

from gcbs_cli.trainers import PlannedBatchSampler

KILLED = Path(__file__).with_name("killed.py")


@pytest.mark.parametrize("restarts", [0, 3])
def test_ranks_that_are_killed_take_up_the_same_batches(restarts, launch, plan_path, tmp_path, monkeypatch):
    # In a store that restarts share, ranks find the addresses of those that died.
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    ranks, folder, deaths = 2, tmp_path / "out", 0
    while deaths < 3 and not restarts:
        with pytest.raises(AssertionError, match="exitcode: -9"):
            launch(KILLED, plan_path, launcher=torchrun(ranks))
        assert len(list(folder.glob("died-*"))) > deaths
        deaths = len(list(folder.glob("died-*")))
    launch(KILLED, plan_path, launcher=[*torchrun(ranks), f"--max-restarts={restarts}"])
    assert len(list(folder.glob("died-*"))) == 3
    for rank in range(ranks):
        sampler = PlannedBatchSampler(plan_path, shuffle_batches=True, seed=3, rank=rank, world_size=ranks)
        wanted = []
        for epoch in range(2):
            sampler.set_epoch(epoch)
            wanted += [[epoch, step, rows] for step, rows in enumerate(sampler, 1)]
        seen = list(map(json.loads, (folder / f"rank-{rank}.jsonl").read_text().splitlines()))
        assert len(seen) > len(wanted)  # steps whose state was not saved are made again
        assert [each for number, each in enumerate(sorted(seen)) if each not in sorted(seen)[:number]] == wanted
