"""Accelerate under its own launcher: each way in which it deals batches out."""

from pathlib import Path

import pytest
from launching import Launch, launches
from numpy.typing import NDArray
from toy_pairs import TEMPERATURE, Pairs, check_epoch, check_plan_of_each_epoch, combinations, load_records, losses_seen

from gcbs_cli.trainers import PlannedBatchSampler

pytestmark = launches("accelerate")


def accelerate_launch(ranks: int) -> list[str]:
    """accelerate's launcher of several processes is called --multi_gpu; the workers ask for the CPU and get gloo."""
    options = ["--multi_gpu", "--num_processes", str(ranks), "--num_machines", "1", "--mixed_precision", "no"]
    return ["-m", "accelerate.commands.launch", *options, "--dynamo_backend", "no", "--main_process_port", "0"]


@pytest.mark.parametrize("ranks", [2, 4])
def test_accelerate_launch(
    ranks: int, launch: Launch, plan_path: Path, perm: NDArray, plan_of_next_epoch: NDArray
) -> None:  # type: ignore[type-arg]
    from gcbs_cli.trainers.loss_check import batch_loss

    folder = launch("accelerated.py", plan_path, launcher=accelerate_launch(ranks))
    check_plan_of_each_epoch(load_records(folder, "pattern", ranks), [perm, plan_of_next_epoch])
    pairs = Pairs()
    for dealing in combinations(ranks):
        records, gather = load_records(folder, str(dealing), ranks), dealing[-1]
        settings = {"shuffle_batches": True, "rank": 0, "world_size": ranks, "gather": gather, "yields": "batches"}
        sampler = PlannedBatchSampler(perm, 8, **settings)  # type: ignore[arg-type]
        for epoch in (0, 1):
            sampler.set_epoch(epoch)
            seen = losses_seen([record[str(epoch)] for record in records], gather=gather)
            check_epoch(seen, perm, set(sampler.left_out().tolist()))
            assert seen == [rows.tolist() for step in range(sampler.sharding.steps) for rows in sampler.step_rows(step)]
        for record in records:
            after_one_step = [rows for rows, _ in record["1"]][1:]
            assert [rows for rows, _ in record["resumed"]] == after_one_step
            assert [rows for rows, _ in record.get("skipped", [])] in (after_one_step, [])
            rows = [row for other in records for row in first_rows(other)] if gather else first_rows(record)
            expected = batch_loss(pairs.x[rows], pairs.y[rows], temperature=TEMPERATURE)
            assert record["0"][0][1] == pytest.approx(expected, abs=1e-3)


def first_rows(record: dict[str, list[tuple[list[int], float]]]) -> list[int]:
    return record["0"][0][0]
