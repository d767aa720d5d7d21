"""What `plan_batches` refuses at once, in one line, and what it reads from trainer and loss."""

import sys
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from launching import save

pytest.importorskip("sentence_transformers")
pytest.importorskip("accelerate")
datasets = pytest.importorskip("datasets")

sys.path.insert(0, str(Path(__file__).parent / "workers"))
import torch
import toy_encoder
import transformers
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer import losses
from toy_pairs import BATCH, ROWS, Pairs, Towers, planned_batches

import gcbs_cli as gcbs
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers import PlannedBatchSampler

PAIRS = toy_encoder.text_pairs()
ORDER = np.random.default_rng(0).permutation(ROWS)


def with_own(part, kind=transformers.Trainer):
    """A trainer that makes a part of its loader itself."""
    return type("Own", (kind,), {part: lambda *given: None})


def sentence_trainer(folder, *, dataset=PAIRS, loss=None, kind=SentenceTransformerTrainer, **arguments):
    model = toy_encoder.sentence_encoder()
    settings = {"per_device_train_batch_size": BATCH, "report_to": [], "use_cpu": True, "seed": 5, **arguments}
    return kind(
        model=model,
        args=SentenceTransformerTrainingArguments(str(folder), **settings),
        train_dataset=dataset,
        loss=losses.MultipleNegativesRankingLoss(model, scale=10.0) if loss is None else loss(model),
    )


def trainer(folder, *, dataset=None, kind=transformers.Trainer, **arguments):
    settings = {"per_device_train_batch_size": BATCH, "report_to": [], "use_cpu": True, **arguments}
    settings["remove_unused_columns"] = False
    args = transformers.TrainingArguments(str(folder), **settings)
    return kind(model=Towers(), args=args, train_dataset=Pairs() if dataset is None else dataset)


class Unknown(torch.nn.Module):
    """A loss that gcbs does not know."""

    temperature = "learned"

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, features, labels):
        x, y = (self.model(feature)["sentence_embedding"] for feature in features)
        return torch.nn.functional.mse_loss(x, y)


STREAM = {"dataset": PAIRS.to_iterable_dataset(), "max_steps": 3}
BOTH_WAYS = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
BOTH = datasets.DatasetDict({"a": PAIRS, "b": toy_encoder.text_pairs(seed=1)})


@pytest.mark.parametrize(
    ("make", "made", "asked", "said"),
    [
        (sentence_trainer, STREAM, {}, "IterableDataset: expected a data set with a length"),
        (trainer, STREAM, {"embed": len}, "IterableDataset: expected a data set"),
        (trainer, {"train_sampling_strategy": "group_by_length"}, {"embed": len}, "group_by_length: chooses the rows"),
        (trainer, {"kind": with_own("get_train_dataloader")}, {"embed": len}, "Own: makes a train loader of its own"),
        (trainer, {"kind": with_own("_get_train_sampler")}, {"embed": len}, "_get_train_sampler"),
        (
            sentence_trainer,
            {"kind": with_own("get_batch_sampler", SentenceTransformerTrainer)},
            {},
            "get_batch_sampler",
        ),
        (trainer, {"auto_find_batch_size": True}, {"embed": len}, "set per_device_train_batch_size"),
        (trainer, {}, {}, "plan, embed: expected one"),
        (trainer, {}, {"plan": ORDER}, "does not say its batch size; give batch_size"),
        (trainer, {}, {"plan": ORDER, "batch_size": 16}, "batch_size 16: the trainer makes losses of 8 pairs"),
        (trainer, {}, {"plan": np.arange(70), "batch_size": BATCH}, "71"),
        (sentence_trainer, {"batch_sampler": "group_by_label"}, {}, "chooses the rows of a batch"),
        (sentence_trainer, {"batch_sampler": lambda **given: None}, {}, "chooses the rows of a batch"),
        (sentence_trainer, {"loss": Unknown}, {}, "Unknown: found neither scale nor .* give temperature"),
        (sentence_trainer, {"dataset": BOTH | {"c": PAIRS.select(range(6))}}, {}, "data set c: .*6 rows are too few"),
        (sentence_trainer, {}, {"plan": ORDER, "batch_size": BATCH, "embed": len}, "plan, embed: expected one"),
        (sentence_trainer, {"dataset": BOTH}, {"plan": {"a": ORDER}}, "expected one for each data set"),
        (sentence_trainer, {}, {"graph": "quantile", "top": 3}, "top has no effect"),
    ],
)
def test_what_cannot_be_planned_is_refused_before_any_compute(make, made, asked, said, tmp_path):
    one = make(tmp_path, **made)
    loader = one.get_train_dataloader
    with pytest.raises(BadInput, match=said) as error:
        gcbs.plan_batches(one, **asked)
    assert "\n" not in str(error.value)
    assert one.get_train_dataloader == loader


@pytest.mark.parametrize(
    "name",
    ["CoSENT", "AnglE", "Triplet", "Contrastive", "CosineSimilarity", "BatchAllTriplet", "MSE"],
)
def test_losses_without_negatives_from_the_batch_are_refused_whatever_temperature(name, tmp_path):
    one = sentence_trainer(tmp_path, loss=getattr(losses, f"{name}Loss"))
    with pytest.raises(BadInput, match=f"{name}Loss: its negatives are not the other pairs"):
        gcbs.plan_batches(one, temperature=0.1)


def test_another_kind_of_trainer_is_told_what_there_is():
    with pytest.raises(BadInput, match="planned\\(loader, embed"):
        gcbs.plan_batches(object())


@pytest.mark.parametrize(
    ("loss", "kind", "temperature", "gather"),
    [
        (lambda model: losses.MultipleNegativesRankingLoss(model, scale=25.0), "infonce", 0.04, False),
        (lambda model: losses.MultipleNegativesRankingLoss(model, **BOTH_WAYS), "symmetric", 0.05, False),
        (
            lambda model: losses.MatryoshkaLoss(
                model, losses.MultipleNegativesRankingLoss(model, scale=10.0, gather_across_devices=True), [16, 8]
            ),
            "infonce",
            0.1,
            True,
        ),
        (Unknown, "infonce", 0.3, False),
    ],
    ids=["ranking", "symmetric", "matryoshka", "unknown"],
)
def test_the_loss_is_read_through_its_wrappers(loss, kind, temperature, gather, tmp_path):
    given = {"temperature": temperature} if loss is Unknown else {}
    planned = gcbs.plan_batches(sentence_trainer(tmp_path, loss=loss), **given)
    asked = planned.loss_settings("")
    assert (asked.loss, asked.temperature, asked.gather) == (kind, pytest.approx(temperature), gather)
    assert planned.planned[""].sampler.loss_batch_size == BATCH
    assert planned.planned[""].sampler.seed == 5


def test_duplicates_that_the_trainer_keeps_apart_stay_apart(tmp_path):
    texts = [f"w{row % 50} w1 w2 w3 w4 w5" for row in range(ROWS)]
    dataset = datasets.Dataset.from_dict({"anchor": texts, "positive": PAIRS["positive"]})
    one = sentence_trainer(tmp_path, dataset=dataset, batch_sampler="no_duplicates", max_steps=2, disable_tqdm=True)
    planned = gcbs.plan_batches(one)
    one.train()
    for start in range(0, ROWS, BATCH):
        anchors = [texts[row] for row in planned.planned[""].sampler.plan.perm[start : start + BATCH]]
        assert len(anchors) == len(set(anchors))


def test_a_checkpoint_without_its_plan_is_not_resumed_in_the_middle_of_an_epoch(tmp_path):
    settings = {"max_steps": 3, "save_strategy": "steps", "save_steps": 3, "disable_tqdm": True}
    sentence_trainer(tmp_path, **settings).train()
    later = sentence_trainer(tmp_path, **{**settings, "max_steps": 6})
    gcbs.plan_batches(later)
    with pytest.raises(BadInput, match="without its plan"):
        later.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))


class Seen(SentenceTransformerTrainer):
    """Notes the rows of each loss by their texts."""

    def compute_loss(self, model, inputs, *args, **kwargs):
        self.seen.append(self.rows_of(inputs["anchor_input_ids"]))
        return super().compute_loss(model, inputs, *args, **kwargs)


def rows_trained(one, **resume):
    """Train, and return the batches of the epoch, row by row."""
    one.seen, one.rows_of = [], toy_encoder.RowsOfTexts(one.train_dataset["anchor"])
    one.train(**resume)
    return one.seen


QUIET = {"num_train_epochs": 1, "save_strategy": "no", "disable_tqdm": True}


def test_what_changes_before_it_trains_is_planned_anew(tmp_path):
    one = sentence_trainer(tmp_path, kind=Seen, **QUIET)
    planned = gcbs.plan_batches(one)
    for size, seed, dataset in ((16, 5, PAIRS), (4, 6, PAIRS), (8, 6, toy_encoder.text_pairs(90, seed=3))):
        one.args.per_device_train_batch_size, one.args.seed, one.train_dataset = size, seed, dataset
        seen = rows_trained(one)
        sampler = planned.planned[""].sampler
        assert (sampler.loss_batch_size, sampler.seed) == (size, seed)
        batches = planned_batches(sampler.plan.perm, size)
        assert sorted(map(tuple, seen)) == sorted(map(tuple, batches))
        assert sorted(row for batch in seen for row in batch) == list(range(len(dataset)))
    assert len(planned.history) == 3
    assert [found.agrees for found in planned.check.comparisons] == [True, True]
    one.loss = losses.CosineSimilarityLoss(one.model)
    with pytest.raises(BadInput, match="CosineSimilarityLoss"):
        one.train()
    one.train_dataset = None
    with pytest.raises(BadInput, match="NoneType: expected a data set with a length"):
        one.train()


@pytest.mark.parametrize("plan", [{}, {"plan": ORDER, "batch_size": BATCH}], ids=["made", "given"])
def test_a_checkpoint_holds_the_plan_as_whole_numbers_of_four_bytes(plan, tmp_path, caplog):
    settings = {**QUIET, "num_train_epochs": 2, "save_strategy": "steps", "save_steps": 3}
    one = sentence_trainer(tmp_path, kind=Seen, **settings)
    planned = gcbs.plan_batches(one, **plan)
    seen = rows_trained(one)
    folder = tmp_path / "checkpoint-12"
    if not plan:
        rows = np.load(folder / "gcbs..npz")["perm"]
        assert rows.dtype == np.int32
        assert rows.tolist() == planned.planned[""].sampler.plan.perm.tolist()
    assert "gcbs" not in (folder / "trainer_state.json").read_text().split('"stateful_callbacks"')[1]
    again = sentence_trainer(tmp_path / "elsewhere", kind=Seen, **settings)
    gcbs.plan_batches(again, **plan)
    assert rows_trained(again, resume_from_checkpoint=str(folder)) == seen[12:]
    assert "not included" not in caplog.text
    other = sentence_trainer(tmp_path, **settings | {"seed": 6})
    gcbs.plan_batches(other, **plan)
    with pytest.raises(BadInput, match="seed was 5 and is now 6"):
        other.train(resume_from_checkpoint=str(folder))
    other.args.dataloader_drop_last = True  # the end of an epoch is now the middle of another
    with pytest.raises(BadInput, match="is now"):
        other.train(resume_from_checkpoint=str(tmp_path / "checkpoint-9"))
    (folder / "gcbs..npz").write_bytes((folder / "gcbs..npz").read_bytes()[:-9])
    with pytest.raises(BadInput, match="gcbs..npz: damaged; resume from another"):
        other.train(resume_from_checkpoint=str(folder))


def test_a_loss_that_no_plan_foretells_is_named_once(tmp_path, caplog):
    one = sentence_trainer(tmp_path, kind=Seen, loss=Unknown, **QUIET)
    planned = gcbs.plan_batches(one, temperature=0.1)
    seen = rows_trained(one)
    assert seen[-1] == planned.planned[""].sampler.plan.perm[-7:].tolist()
    for name in signature(torch.utils.data.DataLoader).parameters:
        of_trainer = getattr(one.args, f"dataloader_{name}", None)
        assert of_trainer in (None, getattr(planned.planned[""].loader, name, None))
    assert caplog.text.count("check skipped: Unknown") == 1


def test_sentence_transformers_takes_the_sampler_as_its_batch_sampler(tmp_path):
    sampler = PlannedBatchSampler.factory(save(tmp_path / "perm.npy", ORDER))
    one = sentence_trainer(tmp_path, kind=Seen, batch_sampler=sampler, **QUIET)
    assert rows_trained(one) == planned_batches(ORDER)
    with pytest.raises(BadInput, match="one plan for several data sets"):
        sentence_trainer(tmp_path, dataset=BOTH, batch_sampler=sampler, **QUIET).train()
