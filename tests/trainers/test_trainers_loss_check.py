"""The check of the first losses: silent where the wiring is right, a warning for each way of getting it wrong."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from toy_pairs import BATCH, ROWS, TEMPERATURE, contrast, make_sides

from gcbs_cli import report
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers import EpochPlanner, LossCheck, PlannedBatchSampler, PlanWarning
from gcbs_cli.trainers.loss_check import batch_loss, has_dropout

Perm = NDArray[np.int64]
X, Y = make_sides()


def loss_of(rows: list[int], temperature: float = TEMPERATURE) -> float:
    scale = TEMPERATURE / temperature
    return float(contrast(torch.from_numpy(X[rows]) * scale, torch.from_numpy(Y[rows])))


@pytest.mark.parametrize("loss", ["infonce", "symmetric", "simclr"])
def test_the_mean_over_batches_is_the_reports_loss(loss: str, perm: Perm) -> None:
    sampler = PlannedBatchSampler(perm, BATCH)
    expected = report(X, Y, perm, batch_size=BATCH, temperature=TEMPERATURE, loss=loss, per_row=3, trials=1).loss.plan
    batches = list(sampler)
    losses = [batch_loss(X[rows], Y[rows], temperature=TEMPERATURE, loss=loss) for rows in batches]
    assert np.average(losses, weights=list(map(len, batches))) == pytest.approx(expected, abs=1e-5)


def test_agrees_with_the_trainers_own_loss(perm: Perm) -> None:
    sampler = PlannedBatchSampler(perm, BATCH, shuffle_batches=True)
    check = LossCheck(sampler, (X, Y), temperature=TEMPERATURE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step, rows in enumerate(sampler):
            check.observe(step, loss_of(rows))
    assert [found.agrees for found in check.comparisons] == [True]


@pytest.mark.parametrize(
    ("rows", "temperature"),
    [
        (lambda perm: np.random.default_rng(1).permutation(ROWS)[:BATCH], TEMPERATURE),
        (lambda perm: perm[1 : BATCH + 1], TEMPERATURE),
        (lambda perm: perm[: BATCH // 2], TEMPERATURE),
        (lambda perm: perm[:BATCH], 0.2),
        (lambda perm: perm[BATCH : 2 * BATCH], TEMPERATURE),
    ],
    ids=["shuffled", "cut elsewhere", "half a batch", "another temperature", "the next batch"],
)
def test_warns_of_wrong_wiring(rows: Callable[[Perm], Perm], temperature: float, perm: Perm) -> None:
    check = LossCheck(PlannedBatchSampler(perm, BATCH), (X, Y), temperature=TEMPERATURE)
    with pytest.warns(PlanWarning, match="not the planned ones"):
        check.observe(0, loss_of(rows(perm).tolist(), temperature))


def test_expects_the_mean_over_ranks_or_one_ranks(perm: Perm) -> None:
    sampler = PlannedBatchSampler(perm, BATCH, rank=1, world_size=2)
    check = LossCheck(sampler, (X, Y), temperature=TEMPERATURE)
    losses = [loss_of(perm[:BATCH].tolist()), loss_of(perm[BATCH : 2 * BATCH].tolist())]
    assert check.expect(0) == pytest.approx(np.mean(losses), abs=1e-5)
    assert check.expect(0, rank=1) == pytest.approx(losses[1], abs=1e-5)


def test_later_steps_need_the_current_model(perm: Perm) -> None:
    with pytest.raises(BadInput, match="give a function"):
        LossCheck(PlannedBatchSampler(perm, BATCH), (X, Y), steps=2)


def test_a_tolerance_for_dropout_still_finds_another_temperature(perm: Perm) -> None:
    sampler = PlannedBatchSampler(perm, BATCH)
    check = LossCheck(sampler, (X, Y), temperature=TEMPERATURE, relative=True, tolerance=0.25)
    expected = check.expect()
    assert check.compare(0, expected + 0.2, expected).agrees
    with pytest.warns(PlanWarning, match="its temperature or direction differs"):
        check.compare(0, loss_of(perm[:BATCH].tolist(), 1.0), expected)


def test_dropout_is_found() -> None:
    assert has_dropout(torch.nn.Sequential(torch.nn.Dropout(0.1)).modules())
    assert not has_dropout(torch.nn.Sequential(torch.nn.Dropout(0.0)).modules())


def test_planner_gives_a_new_plan_and_the_reports_figures(perm: Perm) -> None:
    sampler = PlannedBatchSampler(range(ROWS), BATCH)
    logs: list[dict[str, float]] = []
    settings = {"per_row": 4}
    planner = EpochPlanner(
        sampler, lambda: (X, Y), temperature=TEMPERATURE, plan_settings=settings, log=logs.append, trials=3
    )
    figures = planner.start_epoch(0)
    batches = [row for batch in sampler for row in batch]
    assert sorted(batches) == list(range(ROWS))
    assert batches != sorted(batches)
    expected = report(X, Y, batches, batch_size=BATCH, temperature=TEMPERATURE, trials=3)
    assert figures.global_loss == pytest.approx(expected.loss.global_)
    assert figures.train_loss == pytest.approx(expected.loss.plan)
    assert logs[0]["gcbs/reduction"] == pytest.approx(expected.gap.reduction)
    assert logs[0]["gcbs/gap"] == pytest.approx(logs[0]["gcbs/L_global"] - logs[0]["gcbs/L_train"])


def test_planner_resumes_a_saved_plan(perm: Perm, tmp_path) -> None:  # type: ignore[no-untyped-def]
    pattern = str(tmp_path / "perm-{epoch}.npy")
    sampler = PlannedBatchSampler(range(ROWS), BATCH)
    EpochPlanner(sampler, lambda: (X, Y), plan_settings={"per_row": 4}, save=pattern).start_epoch(3)
    planned = list(sampler)
    again = PlannedBatchSampler(range(ROWS), BATCH)
    EpochPlanner(again, lambda: (X, Y), save=pattern).resume_epoch(3)
    assert list(again) == planned
    with pytest.raises(BadInput, match="was not saved"):
        EpochPlanner(again, lambda: (X, Y)).resume_epoch(4)


@pytest.mark.parametrize("wrong", [{"warm_start": True}, {"per_rows": 4}], ids=lambda wrong: str(*wrong))
def test_wrong_plan_settings_are_refused_before_training(wrong: dict[str, object], perm: Perm) -> None:
    with pytest.raises(BadInput, match=next(iter(wrong))):
        EpochPlanner(PlannedBatchSampler(perm, BATCH), lambda: (X, Y), plan_settings=wrong)
