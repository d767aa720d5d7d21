"""A loop of one's own over `planned`: plans, figures and the check of the first losses, against the report's."""

import warnings

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from toy_pairs import BATCH, ROWS, TEMPERATURE, contrast, make_sides

import gcbs_cli as gcbs
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers import PlanWarning
from gcbs_cli.trainers.planner import LossCheck, has_dropout

X, Y = make_sides()
LOADER = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y), torch.arange(ROWS)), BATCH, shuffle=True)


def both(batch):
    return batch[:2]


def planned(**settings):
    return gcbs.planned(LOADER, embed=both, **{"temperature": TEMPERATURE, **settings})


def test_each_epoch_is_planned_and_logged_with_the_reports_figures():
    logs = []
    batches = planned(log=logs.append)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            seen = []
            for x, y, rows in batches:
                batches.check_loss(contrast(x, y))
                seen.append(rows.tolist())
            assert sorted(map(tuple, seen)) == sorted(
                map(tuple, np.split(batches.sampler.plan.perm, range(8, ROWS, 8)))
            )
    assert [found.agrees for found in batches.check.comparisons] == [True, True]
    settings = {"batch_size": BATCH, "temperature": TEMPERATURE, "trials": 3}
    expected = gcbs.report(X, Y, batches.sampler.plan.perm, **settings)
    assert len(logs) == 2
    assert logs[1]["gcbs/L_train"] == pytest.approx(expected.loss.plan)
    assert logs[1]["gcbs/reduction"] == pytest.approx(expected.gap.reduction)
    assert logs[1]["gcbs/gap"] == pytest.approx(logs[1]["gcbs/L_global"] - logs[1]["gcbs/L_train"])
    assert logs[1]["gcbs/embed_seconds"] > 0 < logs[1]["gcbs/plan_seconds"]


def test_a_last_batch_of_one_row_is_checked_too():
    loader = DataLoader(torch.utils.data.Subset(LOADER.dataset, range(BATCH + 1)), BATCH)
    batches = gcbs.planned(loader, embed=both, temperature=TEMPERATURE)
    for x, y, _ in batches:
        batches.check_loss(contrast(x, y))
    assert [(found.agrees, found.expected > 0) for found in batches.check.comparisons] == [(True, True), (True, False)]


def test_a_random_first_epoch_embeds_nothing():
    batches = planned(first="random")
    assert sorted(row for _, _, rows in batches for row in rows.tolist()) == list(range(ROWS))
    assert batches.planner.history == []
    next(iter(batches))
    assert len(batches.planner.history) == 1


@pytest.mark.parametrize("wrong", ["the next batch", "half a batch", "another temperature"])
def test_a_wrong_loss_is_warned_of(wrong):
    batches = planned()
    loader = iter(batches)
    x, y, _ = next(loader)
    if wrong == "the next batch":
        x, y = X[batches.sampler.step_rows(1)], Y[batches.sampler.step_rows(1)]
    elif wrong == "half a batch":
        x, y = x[: BATCH // 2], y[: BATCH // 2]
    else:
        x = x * 0.5
    with pytest.warns(PlanWarning, match="not the planned ones"):
        batches.check_loss(contrast(torch.as_tensor(x), torch.as_tensor(y)))


def test_dropout_loosens_the_check_which_still_finds_another_temperature():
    batches = gcbs.trainers.loop.PlannedLoader(
        LOADER,
        None,
        gcbs.settings.training.TrainingSettings(temperature=TEMPERATURE),
        embed=both,
        check=LossCheck(dropout=True),
    )
    loader = iter(batches)
    x, y, _ = next(loader)
    batches.check_loss(contrast(x, y) + 0.2)
    assert batches.check.comparisons[0].agrees
    x, y, _ = next(loader)
    with pytest.warns(PlanWarning, match="its temperature or direction differs"):
        batches.check_loss(contrast(0.1 * x, y))
    assert has_dropout(torch.nn.Sequential(torch.nn.Dropout(0.1)))
    assert not has_dropout(torch.nn.Sequential(torch.nn.Dropout(0.0)))


def test_a_device_without_memory_for_a_batch_gets_smaller_ones():
    sizes = []

    def cramped(batch):
        sizes.append(len(batch[0]))
        if len(batch[0]) > 70:
            raise torch.OutOfMemoryError("of the test")
        return batch[:2]

    batches = gcbs.planned(LOADER, embed=cramped, temperature=TEMPERATURE)
    next(iter(batches))
    assert sizes == [ROWS, ROWS, 64, 7]
    assert batches.sampler.plan.perm.tolist() == planned_by_hand().tolist()


def planned_by_hand():
    return gcbs.plan(X, Y, batch_size=BATCH, temperature=TEMPERATURE, preset="train").perm


class Stream(IterableDataset):
    """A data set without row numbers."""

    __iter__ = None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"warm_start": True}, "warm_start"),
        ({"refresh": "step"}, "refresh step: expected epoch or a number of steps"),
        ({"first": "static"}, "first static: expected 'random' or 'plan'"),
        ({"fn_weight": 5.0, "refine": False}, "fn_weight has no effect without"),
        ({"loader": DataLoader(Stream(), BATCH)}, "expected a data set with a length"),
        ({"embed": None}, "plan, embed: expected one"),
        ({"plan": np.arange(ROWS), "embed": None}, "give batch_size"),
        ({"plan": np.arange(ROWS), "embed": None, "batch_size": 16}, "losses of 8 pairs"),
        ({"plan": np.arange(ROWS + 1), "embed": None, "batch_size": BATCH}, "71"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value,
)
def test_what_cannot_be_planned_is_refused_at_once(change, said):
    given = {"loader": LOADER, "embed": both, **change}
    with pytest.raises(BadInput, match=said):
        gcbs.planned(given.pop("loader"), given.pop("plan", None), **given)
