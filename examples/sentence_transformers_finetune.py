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
from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss

import gcbs_cli as gcbs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("pairs")
    parser.add_argument("--output", default="finetuned")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--max-steps", type=int, default=-1)
    parser.add_argument("--batch-size", type=int, default=32)
    asked = parser.parse_args()
    dataset = load_dataset("json", data_files=asked.pairs, split="train").train_test_split(0.5, seed=0)
    model = SentenceTransformer(asked.model, device="cpu")
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=asked.output,
            num_train_epochs=asked.epochs,
            max_steps=asked.max_steps,
            per_device_train_batch_size=asked.batch_size,
            eval_strategy="epoch",
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
        ),
        train_dataset=dataset["train"],
        eval_dataset=dataset["test"],
        loss=CachedMultipleNegativesRankingLoss(model, mini_batch_size=8),
    )
    gcbs.plan_batches(trainer)
    trainer.train()
    model.save(asked.output)


if __name__ == "__main__":
    main()
