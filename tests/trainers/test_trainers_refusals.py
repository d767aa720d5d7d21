"""What `plan_batches` refuses at once, in one line, and what it reads from trainer and loss."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")
pytest.importorskip("accelerate")
datasets = pytest.importorskip("datasets")

sys.path.insert(0, str(Path(__file__).parent / "workers"))
import toy_encoder
import transformers
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer import losses
from toy_pairs import BATCH, ROWS, Pairs, Towers

import gcbs_cli as gcbs
from gcbs_cli.system.errors import BadInput

PAIRS = toy_encoder.text_pairs()
ORDER = np.random.default_rng(0).permutation(ROWS)


class OwnLoader(transformers.Trainer):
    """A trainer that makes its own loader, as some do for shards of their own."""

    def get_train_dataloader(self):
        raise NotImplementedError


def sentence_trainer(folder, *, dataset=PAIRS, loss=None, **arguments):
    model = toy_encoder.sentence_encoder()
    settings = {"per_device_train_batch_size": BATCH, "report_to": [], "use_cpu": True, "seed": 5, **arguments}
    return SentenceTransformerTrainer(
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


STREAM = {"dataset": PAIRS.to_iterable_dataset(), "max_steps": 3}
BOTH_WAYS = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
BOTH = datasets.DatasetDict({"a": PAIRS, "b": toy_encoder.text_pairs(seed=1)})


@pytest.mark.parametrize(
    ("make", "made", "asked", "said"),
    [
        (sentence_trainer, STREAM, {}, "IterableDataset: found a stream, expected a data set with a length"),
        (trainer, STREAM, {"embed": len}, "IterableDataset: found a stream"),
        (trainer, {"train_sampling_strategy": "group_by_length"}, {"embed": len}, "group_by_length: chooses the rows"),
        (trainer, {"kind": OwnLoader}, {"embed": len}, "OwnLoader: makes a train loader of its own"),
        (trainer, {"auto_find_batch_size": True}, {"embed": len}, "set per_device_train_batch_size"),
        (trainer, {}, {}, "plan, embed: expected one"),
        (trainer, {}, {"plan": ORDER}, "does not say its batch size; give batch_size"),
        (trainer, {}, {"plan": ORDER, "batch_size": 16}, "batch_size 16: the trainer makes losses of 8 pairs"),
        (trainer, {}, {"plan": np.arange(70), "batch_size": BATCH}, "71"),
        (sentence_trainer, {"batch_sampler": "group_by_label"}, {}, "chooses the rows of a batch"),
        (sentence_trainer, {"batch_sampler": lambda **given: None}, {}, "chooses the rows of a batch"),
        (sentence_trainer, {"loss": losses.CosineSimilarityLoss}, {}, "CosineSimilarityLoss: found neither scale nor"),
        (sentence_trainer, {"dataset": BOTH}, {"plan": {"a": ORDER}}, "expected one for each data set"),
        (sentence_trainer, {}, {"refine": False, "fn_weight": 3.0}, "fn-weight has no effect"),
    ],
)
def test_what_cannot_be_planned_is_refused_before_any_compute(make, made, asked, said, tmp_path):
    one = make(tmp_path, **made)
    loader = one.get_train_dataloader
    with pytest.raises(BadInput, match=said) as error:
        gcbs.plan_batches(one, **asked)
    assert "\n" not in str(error.value)
    assert one.get_train_dataloader == loader


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
    ],
    ids=["ranking", "symmetric", "matryoshka"],
)
def test_the_loss_is_read_through_its_wrappers(loss, kind, temperature, gather, tmp_path):
    planned = gcbs.plan_batches(sentence_trainer(tmp_path, loss=loss))
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
