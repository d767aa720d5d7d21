"""sentence-transformers: its trainer with `plan_batches`, alone or under torchrun; resumes; several data sets."""

import os
import sys

import numpy as np
from datasets import DatasetDict
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from toy_encoder import RowsOfTexts, sentence_encoder, text_pairs
from toy_pairs import BATCH, FIGURES, Record, begin, leave, must_refuse, pattern_beside

import gcbs_cli as gcbs

try:
    from sentence_transformers.sentence_transformer import losses
except ModuleNotFoundError:  # before version 5.4
    from sentence_transformers import losses

SCALE = 10.0
RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
SECOND_EPOCH = {1: 9, 2: 4, 4: 2}[RANKS]  # steps of the first


class Watched(SentenceTransformerTrainer):
    """Notes which texts reach the loss, and which loss comes of them."""

    record: Record
    rows_of: RowsOfTexts

    def compute_loss(self, model, inputs, *args, **kwargs):
        rows = self.rows_of(inputs["anchor_input_ids"])
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        if model.training:
            self.record.add(int(self.state.epoch or 0), rows, float(loss.detach()))
        return loss


def trainer_of(folder, dataset, *, gather=False, split=False, size=BATCH, save=False, evaluate=None, wrap=None, **more):
    model = sentence_encoder()
    arguments = SentenceTransformerTrainingArguments(
        output_dir=folder,
        num_train_epochs=2,
        per_device_train_batch_size=size,
        accelerator_config={"split_batches": split},
        learning_rate=1e-3,
        logging_steps=3,
        save_strategy="steps" if save else "no",
        save_steps=SECOND_EPOCH + 1,
        eval_strategy="no" if evaluate is None else "epoch",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **more,
    )
    gathers = {"gather_across_devices": True} if gather else {}  # since version 5.1
    loss = losses.MultipleNegativesRankingLoss(model, scale=SCALE, **gathers)
    if wrap is not None:
        loss = wrap(model, loss)
    trainer = Watched(model=model, args=arguments, train_dataset=dataset, eval_dataset=evaluate, loss=loss)
    parts = dataset.values() if isinstance(dataset, DatasetDict) else [dataset]
    trainer.record, trainer.rows_of = Record(), RowsOfTexts([text for part in parts for text in part["anchor"]])
    return trainer


def train(name, dataset, folder, plan=None, *, evaluate=None, resume=None, check=2, given=None, **settings):
    trainer = trainer_of(os.path.join(folder, name), dataset, evaluate=evaluate, **settings)
    eval_sampler = None if evaluate is None else type(trainer.get_eval_dataloader().batch_sampler)
    planned = gcbs.plan_batches(trainer, plan, **(given or {}))
    if evaluate is not None:  # evaluation keeps its own order
        trainer.rows_of.rows |= RowsOfTexts(evaluate["anchor"]).rows
        assert type(trainer.get_eval_dataloader().batch_sampler) is eval_sampler
    trainer.train(resume_from_checkpoint=resume)
    found = [found.agrees for found in planned.check.comparisons]
    assert found == ([] if resume or plan is not None else [True] * check), planned.check.comparisons
    if plan is None and resume is None:
        if "" in planned.planned:
            if given is None:  # training has seen the other rows
                assert planned.history[-1]["gcbs/rows_embedded"] == len(planned.planned[""].sampler.left_out())
            trainer.record.steps["plans"] = [[planned.planned[""].sampler.plan.perm.tolist(), 0.0]]
        assert all({figure.split("/")[-1] for figure in figures} == FIGURES for figures in planned.history)
        logged = [figures for figures in trainer.state.log_history if any("gcbs/" in figure for figure in figures)]
        assert len(logged) >= len(planned.history) > 0
    if evaluate is not None:
        assert sum("eval_loss" in figures for figures in trainer.state.log_history) == 2
    trainer.record.save(folder, name if resume is None else f"{name}-resumed", RANK)
    return planned


def checkpoint(folder, name):
    return os.path.join(folder, name, f"checkpoint-{SECOND_EPOCH + 1}")


if __name__ == "__main__":
    begin()
    plan, folder = sys.argv[1:]
    pairs = text_pairs()
    train("whole", pairs, folder, plan, save=True)
    train("whole", pairs, folder, plan, resume=checkpoint(folder, "whole"))
    same_length = text_pairs(seed=1)
    train("replanned", pairs, folder, save=True, evaluate=same_length)
    train("replanned", pairs, folder, resume=checkpoint(folder, "replanned"), evaluate=same_length)
    refresh = {"given": {"refresh": 3, "first": "random"}}
    train("refreshed", pairs, folder, save=True, **refresh)
    train("refreshed", pairs, folder, resume=checkpoint(folder, "refreshed"), **refresh)
    if RANKS == 1:
        train("pattern", pairs, folder, pattern_beside(plan))
        train("wrapped", pairs, folder, wrap=lambda model, loss: losses.MatryoshkaLoss(model, loss, [16, 8]))
    if RANKS > 1:
        train("gather", pairs, folder, plan, gather=True, size=BATCH // RANKS)
        train("split", pairs, folder, plan, gather=True, split=True)
        train("gathered", pairs, folder, gather=True, size=BATCH // RANKS)
        must_refuse("the ranks differ in seed", train, "wrong", pairs, folder, plan, data_seed=RANK)
        must_refuse("split evenly", train, "wrong", pairs, folder, plan, split=True, size=RANKS * BATCH + 1)
    if RANKS < 4:
        both = DatasetDict({"a": pairs, "b": text_pairs(seed=5)})
        plans = {"a": plan, "b": np.random.default_rng(1).permutation(len(pairs))}
        train("several", both, folder, plans, given={"batch_size": BATCH})
        train("several-replanned", both, folder)
        train("several-gathered", both, folder, gather=True, size=BATCH // RANKS)
    leave()
