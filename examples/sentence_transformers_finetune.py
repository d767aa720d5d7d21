"""Fine-tune a sentence-transformers model, with a new plan each epoch from the current model's embeddings.

One process:   python sentence_transformers_finetune.py MODEL pairs.jsonl
Several:       torchrun --nproc-per-node 2 sentence_transformers_finetune.py MODEL pairs.jsonl
pairs.jsonl has one {"anchor": ..., "positive": ...} a line.
"""

import argparse

from datasets import load_dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from gcbs_cli.trainers import EpochPlanner, LossCheck
from gcbs_cli.trainers.loss_check import DROPOUT_TOLERANCE, has_dropout
from gcbs_cli.trainers.sentence_transformers import PlannedBatches
from gcbs_cli.trainers.transformers import PlannedCallback

SCALE = 20.0  # 1 / temperature


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("pairs")
    parser.add_argument("--output", default="finetuned")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--max-steps", type=int, default=-1)
    parser.add_argument("--batch-size", type=int, default=32)
    asked = parser.parse_args()
    dataset = load_dataset("json", data_files=asked.pairs, split="train")
    model = SentenceTransformer(asked.model, device="cpu")

    def embed(rows=None):
        chosen = dataset[:] if rows is None else dataset[rows.tolist()]
        return model.encode(chosen["anchor"]), model.encode(chosen["positive"])

    # Any order will do to begin with: the planner gives the sampler a new one before each epoch.
    planned = PlannedBatches(range(len(dataset)))
    drops = has_dropout(model.modules())
    settings = {"temperature": 1 / SCALE, "loss": "infonce"}
    planner = EpochPlanner(planned, embed, log=print, plan_settings={"preset": "train"}, **settings)
    check = LossCheck(planned, embed, relative=drops, tolerance=DROPOUT_TOLERANCE if drops else 1e-3, **settings)
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=asked.output,
            num_train_epochs=asked.epochs,
            max_steps=asked.max_steps,
            per_device_train_batch_size=asked.batch_size,
            batch_sampler=planned,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
        ),
        train_dataset=dataset,
        loss=MultipleNegativesRankingLoss(model, scale=SCALE),
        callbacks=[PlannedCallback(planned, planner=planner, check=check)],
    )
    trainer.train()
    model.save(asked.output)


if __name__ == "__main__":
    main()
