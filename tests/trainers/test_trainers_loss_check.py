"""A loop of one's own over `planned`: plans, figures and the check of the first losses, against the report's."""

import warnings

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, TensorDataset
from toy_pairs import BATCH, FIGURES, ROWS, TEMPERATURE, Pairs, contrast, make_sides

import gcbs_cli as gcbs
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers import PlanWarning

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
    assert logs[1]["gcbs/learnable"] == pytest.approx(expected.learnable_share.plan)
    assert logs[1]["gcbs/reduction"] == pytest.approx(expected.gap.reduction)
    assert {name.removeprefix("gcbs/") for name in logs[1]} == FIGURES
    assert [logs[1][f"gcbs/{name}"] for name in ("epoch", "step", "k", "rows")] == [1, 0, BATCH, ROWS]
    assert logs[1]["gcbs/gap"] == pytest.approx(logs[1]["gcbs/L_global"] - logs[1]["gcbs/L_train"])
    assert logs[1]["gcbs/embed_seconds"] > 0 < logs[1]["gcbs/plan_seconds"]


def test_a_last_batch_of_one_row_is_checked_too():
    loader = DataLoader(torch.utils.data.Subset(LOADER.dataset, range(BATCH + 1)), BATCH)
    batches = gcbs.planned(loader, embed=both, temperature=TEMPERATURE)
    for x, y, _ in batches:
        batches.check_loss(contrast(x, y))
    assert [(found.agrees, found.expected > 0) for found in batches.check.comparisons] == [(True, True), (True, False)]


def test_figures_that_fail_are_warned_of_and_training_goes_on(monkeypatch):
    monkeypatch.setattr("gcbs_cli.reports.sampled.find_threshold", None)
    batches = planned()
    with pytest.warns(UserWarning, match="no figures of this plan"):
        assert len(list(batches)) == len(batches)
    assert batches.planner.history[0]["gcbs/rows"] == ROWS


def test_a_random_first_epoch_embeds_nothing():
    batches = planned(first="random")
    assert sorted(row for _, _, rows in batches for row in rows.tolist()) == list(range(ROWS))
    assert batches.planner.history == []
    next(iter(batches))
    assert len(batches.planner.history) == 1


@pytest.mark.parametrize("wrong", ["the next batch", "half a batch"])
def test_a_wrong_loss_is_warned_of(wrong):
    batches = planned()
    loader = iter(batches)
    x, y, _ = next(loader)
    if wrong == "the next batch":
        x, y = X[batches.sampler.step_rows(1)], Y[batches.sampler.step_rows(1)]
    else:
        x, y = x[: BATCH // 2], y[: BATCH // 2]
    with pytest.warns(PlanWarning, match="not the planned ones"):
        batches.check_loss(contrast(torch.as_tensor(x), torch.as_tensor(y)))


@pytest.mark.parametrize("function", [True, False], ids=["a function", "a number"])
def test_a_loss_with_dropout_agrees_and_a_wrong_one_does_not(function):
    torch.manual_seed(0)
    model = torch.nn.Dropout(0.1)
    batches = gcbs.planned(
        LOADER, embed=lambda batch: (model(batch[0]), batch[1]), model=model, temperature=TEMPERATURE
    )

    def check(scale):
        loss = lambda: contrast(scale * torch.nn.functional.normalize(model(x)), y)  # noqa: E731
        batches.check_loss(loss if function else loss())

    loader = iter(batches)
    x, y, _ = next(loader)
    check(1.0)
    (first,) = batches.check.comparisons
    assert first.agrees
    assert (abs(first.reported - first.expected) < 1e-5) is function
    x, y, _ = next(loader)
    with pytest.warns(PlanWarning, match="its temperature or direction differs"):
        check(0.99 if function else -1.0)


def test_a_loader_keeps_what_it_was_given():
    settings = {"timeout": 7, "generator": torch.Generator(), "worker_init_fn": print, "prefetch_factor": 3}
    settings |= {"num_workers": 1, "multiprocessing_context": "fork"}
    made = DataLoader(LOADER.dataset, BATCH, **settings)
    kept = gcbs.planned(made, embed=both, temperature=TEMPERATURE).loader
    assert all(getattr(kept, name) == getattr(made, name) for name in settings)


def test_a_state_of_an_ended_epoch_goes_on_with_the_next():
    batches, later = planned(seed=3), planned(seed=3)
    list(batches)
    later.load_state_dict(batches.state_dict())
    seen = [rows.tolist() for _, _, rows in later]
    batches.sampler.set_epoch(1)
    begun = planned(seed=3)
    begun.load_state_dict(batches.state_dict())  # of an epoch that has not begun
    assert begun.state_dict()["step"] == 0
    assert seen == [rows.tolist() for _, _, rows in begun] == [rows.tolist() for _, _, rows in batches]
    assert later.sampler.epoch == begun.sampler.epoch == 1


def by_length(rows):
    """Collate sorted, as for packed sequences."""
    return torch.utils.data.default_collate(sorted(rows, key=lambda row: int(row[2]) % 3))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"embed": lambda batch: batch[0]}, r"embed: returned shapes \(15, 8\), expected \(15, d\) for both sides"),
        ({"embed": lambda batch: None}, r"returned shapes \(\), expected"),
        ({"embed": lambda batch: (batch[0] * np.nan, batch[1])}, "x: rows 0.*NaN"),
        ({"loader": DataLoader(LOADER.dataset, BATCH, collate_fn=by_length)}, "another order than the rows of the"),
    ],
    ids=["one tensor", "nothing", "NaN", "sorted"],
)
def test_embeddings_that_are_not_the_rows_are_refused(change, said):
    given = {"loader": LOADER, "embed": both, **change}
    with pytest.raises(BadInput, match=said):
        next(iter(gcbs.planned(given.pop("loader"), **given)))


def test_a_device_without_memory_for_a_batch_gets_smaller_ones():
    sizes = []

    def cramped(batch):
        sizes.append(len(batch[0]))
        if len(batch[0]) > 70:
            raise torch.OutOfMemoryError("of the test")
        return batch[:2]

    batches = gcbs.planned(LOADER, embed=cramped, temperature=TEMPERATURE)
    next(iter(batches))
    assert sizes == [15, 15, ROWS, ROWS, 64, 7]  # a few in two orders, then all
    by_hand = gcbs.plan(X, Y, batch_size=BATCH, temperature=TEMPERATURE, preset="train")
    assert batches.sampler.plan.perm.tolist() == by_hand.perm.tolist()


class Stream(IterableDataset, Pairs):
    """A data set that a loader reads without row numbers."""

    __iter__ = None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"warm_start": True}, "warm_start"),
        ({"refresh": "step"}, "refresh step: expected epoch, once, stale or a number of steps"),
        ({"first": "static"}, "first static: expected 'random' or 'plan'"),
        ({"loader": DataLoader(Stream(), BATCH)}, "Stream: expected a data set with a length"),
        ({"loader": DataLoader(range(7), BATCH)}, "7 rows are too few"),
        ({"loader": LOADER.dataset}, "TensorDataset: found as the train loader, expected one DataLoader"),
        ({"loader": DataLoader(LOADER.dataset, BATCH, sampler=range(30))}, "range: chooses rows or weighs them"),
        ({"loader": DataLoader(X, BATCH, sampler=RandomSampler(X, True))}, "RandomSampler: chooses rows"),
        ({"loader": DataLoader(X, BATCH, sampler=RandomSampler(X[:30]))}, "RandomSampler: chooses rows"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value,
)
def test_what_cannot_be_planned_is_refused_at_once(change, said):
    given = {"loader": LOADER, "embed": both, **change}
    with pytest.raises(BadInput, match=said):
        gcbs.planned(given.pop("loader"), given.pop("plan", None), **given)
