"""sentence-transformers: its trainer on planned batches, alone or under torchrun; a resume; several datasets."""

import os
import sys
import warnings

import numpy as np
import torch
from datasets import DatasetDict
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from toy_encoder import RowsOfTexts, sentence_encoder, text_pairs
from toy_pairs import BATCH, Record, leave, must_refuse, pattern_beside

from gcbs_cli.trainers import LossCheck
from gcbs_cli.trainers.sentence_transformers import PlannedBatches
from gcbs_cli.trainers.transformers import PlannedCallback

try:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
except ModuleNotFoundError:  # before version 5.4
    from sentence_transformers.losses import MultipleNegativesRankingLoss

SCALE = 10.0
RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
SECOND_EPOCH = {1: 9, 2: 4, 4: 2}[RANKS]  # steps of the first


class Watched(SentenceTransformerTrainer):
    """Notes which texts reach the loss, and which loss comes of them."""

    record: Record
    rows_of: RowsOfTexts

    def compute_loss(self, model, inputs, *args, **kwargs):
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        self.record.add(int(self.state.epoch or 0), self.rows_of(inputs["anchor_input_ids"]), float(loss.detach()))
        return loss


def train(name, dataset, plan, folder, *, gather=False, split=False, size=BATCH, resume=None, check=True):
    model = sentence_encoder()
    planned = PlannedBatches(plan, gather=gather, shuffle_batches=True)
    arguments = SentenceTransformerTrainingArguments(
        output_dir=os.path.join(folder, name),
        num_train_epochs=2,
        per_device_train_batch_size=size,
        batch_sampler=planned,
        accelerator_config={"split_batches": split},
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="steps" if name == "whole" and resume is None else "no",
        save_steps=SECOND_EPOCH + 1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    parts = dataset.values() if isinstance(dataset, DatasetDict) else [dataset]

    def embed(numbers):
        with torch.no_grad():
            chosen = dataset[numbers.tolist()]
            return model.encode(chosen["anchor"]), model.encode(chosen["positive"])

    checking = LossCheck(planned, embed, temperature=1 / SCALE, loss="infonce", steps=2) if check else None
    gathers = {"gather_across_devices": True} if gather else {}  # since version 5.1
    trainer = Watched(
        model=model,
        args=arguments,
        train_dataset=dataset,
        loss=MultipleNegativesRankingLoss(model, scale=SCALE, **gathers),
        callbacks=[PlannedCallback(planned, check=checking)],
    )
    trainer.record = Record()
    trainer.rows_of = RowsOfTexts([text for part in parts for text in part["anchor"]])
    trainer.train(resume_from_checkpoint=resume)
    if checking is not None and resume is None and RANK == 0:
        assert [found.agrees for found in checking.comparisons] == [True, True], checking.comparisons
    trainer.record.save(folder, name if resume is None else "resumed", RANK)
    return trainer


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    warnings.filterwarnings("error", message="step .*the trainer's loss")
    plan, folder = sys.argv[1:]
    pairs = text_pairs()
    train("whole", pairs, plan, folder)
    train("whole", pairs, plan, folder, resume=os.path.join(folder, "whole", f"checkpoint-{SECOND_EPOCH + 1}"))
    if RANKS == 1:
        train("pattern", pairs, pattern_beside(plan), folder)
    if RANKS > 1:
        train("gather", pairs, plan, folder, gather=True, size=BATCH // RANKS)
    if RANKS == 2:
        train("split", pairs, plan, folder, gather=True, split=True)
        must_refuse("split each planned batch", train, "wrong", pairs, plan, folder, split=True)
    if RANKS < 4:
        plans = {"a": plan, "b": np.random.default_rng(1).permutation(50)}
        both = DatasetDict({"a": pairs, "b": text_pairs(50, seed=5)})
        train("several", both, plans, folder, check=False)
    must_refuse("use 8", train, "wrong", pairs, plan, folder, size=16)
    must_refuse("a dataset of 75 rows", train, "wrong", text_pairs(75), plan, folder)
    leave()
