"""Embeddings kept from training: those of the right rows, whatever the loss, and no pass where they suffice."""

import sys
import warnings
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from toy_pairs import BATCH, ROWS, TEMPERATURE, make_sides

import gcbs_cli as gcbs
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers import PlanWarning

X, Y = make_sides()
LOADER = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), BATCH)


@pytest.mark.parametrize("shift", [0, 1], ids=["in order", "of other rows"])
def test_a_loop_that_shows_its_embeddings_needs_no_pass_unless_they_are_of_other_rows(shift, tmp_path):
    logs = []
    embedded = []
    batches = gcbs.planned(
        LOADER, embed=lambda batch: embedded.append(len(batch[0])) or batch, temperature=TEMPERATURE, log=logs.append
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error" if shift == 0 else "ignore", PlanWarning)
        for _ in range(3):
            for x, y in batches:
                batches.saw(x.roll(shift, 0), 3 * y.roll(shift, 0))
    assert [figures["gcbs/rows_embedded"] for figures in logs] == [ROWS, shift * ROWS, shift * ROWS]
    assert sum(embedded) == 15 + 15 + ROWS + 2 * (64 + shift * ROWS)  # the order of rows, a pass, and probes
    if shift == 0:
        batches.planner.save_embeddings(tmp_path / "x.npy", tmp_path / "y.npy")
        assert np.load(tmp_path / "x.npy") == pytest.approx(X, abs=1e-3)
        assert np.load(tmp_path / "y.npy") == pytest.approx(Y, abs=1e-3)


@pytest.mark.parametrize(("refresh", "changes", "plans"), [("once", True, 1), ("stale", False, 1), ("stale", True, 3)])
def test_a_plan_is_kept_until_it_is_stale_or_for_good(refresh, changes, plans):
    turns = [torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(seed)))[0] for seed in range(3)]
    epoch = 0
    batches = gcbs.planned(
        LOADER,
        embed=lambda batch: (batch[0], batch[1] @ turns[epoch * changes]),
        temperature=TEMPERATURE,
        refresh=refresh,
    )
    orders = []
    for epoch in range(3):  # noqa: B007 - embed reads it
        rows = len(list(batches))
        assert rows == len(batches)
        orders.append(batches.sampler.plan.perm.tolist())
    assert len(batches.planner.history) == plans
    assert len(set(map(tuple, orders))) == plans


def test_what_is_no_embedding_of_the_batch_is_refused_and_rows_that_are_not_finite_are_embedded_anew():
    batches = gcbs.planned(LOADER, embed=lambda batch: batch, temperature=TEMPERATURE)
    for epoch in range(2):
        for number, (left, right) in enumerate(batches):
            x, y = left.clone(), right.clone()
            for wrong in ((torch.cat([x, x]), torch.cat([y, y])), (x[0], y[0]), (x, y[:, :4]), (x[:1], y[:1])):
                with pytest.raises(BadInput, match="saw: found the shapes .*, expected"):
                    batches.saw(*wrong)
            if epoch == number == 0:
                x[2] = torch.nan
                y[3] = 0.0
            batches.saw(x, y)
    assert [figures["gcbs/rows_embedded"] for figures in batches.planner.history] == [ROWS, 2]
    batches.planner.store.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(batches)) == len(batches)  # nothing is kept, and nothing is wrong with that


def test_rows_that_an_epoch_leaves_out_keep_what_they_had():
    store = gcbs.planned(LOADER, embed=lambda batch: batch).planner.store
    store.add(0, np.array([3, 1]), X[[3, 1]], Y[[3, 1]])
    store.add(1, np.array([1, 2]), X[[5, 2]], Y[[5, 2]])
    rows, (x, y) = store.of_rows(np.arange(ROWS))
    assert rows.tolist() == [1, 2, 3]
    assert store.age[:5].tolist() == [-1, 1, 1, 0, -1]
    assert x == pytest.approx(X[[5, 2, 3]], abs=1e-3)
    assert y == pytest.approx(Y[[5, 2, 3]], abs=1e-3)


sys.path.insert(0, str(Path(__file__).parent / "workers"))
LOSSES = {
    "plain": lambda kinds, model: kinds.MultipleNegativesRankingLoss(model),
    "cached": lambda kinds, model: kinds.CachedMultipleNegativesRankingLoss(model, mini_batch_size=3),
    "nested": lambda kinds, model: kinds.MatryoshkaLoss(model, kinds.MultipleNegativesRankingLoss(model), [16, 8]),
    "cached and nested": lambda kinds, model: kinds.MatryoshkaLoss(
        model, kinds.CachedMultipleNegativesRankingLoss(model, mini_batch_size=3), [16, 8]
    ),
    "guided": lambda kinds, model: kinds.GISTEmbedLoss(model, deepcopy(model)),
    "cached and guided": lambda kinds, model: kinds.CachedGISTEmbedLoss(model, deepcopy(model), mini_batch_size=3),
}


FEW = [("nested", False), ("cached", True)]
"""What `make test` tries; `make test-all` tries the others."""
OTHERS = [pytest.param(name, False, marks=pytest.mark.slow) for name in LOSSES if name != "nested"]


@pytest.mark.parametrize(("name", "several"), [*FEW, *OTHERS])
def test_the_losses_of_sentence_transformers_show_the_embeddings_of_their_rows(name, several, tmp_path):
    transformers = pytest.importorskip("sentence_transformers")
    pytest.importorskip("accelerate")
    toy_encoder = pytest.importorskip("toy_encoder")
    from datasets import DatasetDict
    from sentence_transformers.sentence_transformer import losses

    model, pairs = toy_encoder.tiny_transformer(tmp_path / "model"), toy_encoder.text_pairs()
    if several:
        others = toy_encoder.text_pairs(seed=2)
        pairs = DatasetDict({"a": pairs, "b": others.add_column("negative", pairs["positive"])})
    arguments = transformers.SentenceTransformerTrainingArguments(
        tmp_path,
        num_train_epochs=2,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=2,
        learning_rate=0.0,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = transformers.SentenceTransformerTrainer(model, arguments, pairs, loss=LOSSES[name](losses, model))
    planned = gcbs.plan_batches(trainer, first="random")
    trainer.train()
    assert len(planned.history) == len(planned.planned)
    for key, part in planned.planned.items():
        figures = next(found for found in planned.history if f"gcbs/{key}/".replace("//", "/") in "".join(found))
        assert [value for figure, value in figures.items() if figure.endswith("rows_embedded")] == [0]
        rows, sides = part.planner.store.of_rows(np.arange(ROWS))
        assert rows.tolist() == list(range(ROWS))
        dataset = pairs[key] if key else pairs
        for side, column in zip(sides, ("anchor", "positive"), strict=True):
            assert side == pytest.approx(model.encode(dataset[column], normalize_embeddings=True), abs=2e-3)
