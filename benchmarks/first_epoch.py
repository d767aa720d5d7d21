"""What the first epoch should be planned from: nothing (random), the model's token embeddings, or a pass of the model.

python benchmarks/first_epoch.py MODEL OUT.jsonl [--rows 512] [--seeds 2]
Fine-tunes a sentence-transformers model for one epoch on docstring-code pairs of the standard library and prints the
MRR x 100 of held-out docstrings against held-out code, with the seconds of embedding, planning and training.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from docstring_pairs import DocstringPair, choose_pairs, collect_pairs, list_standard_library
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer import losses

import gcbs_cli as gcbs

BATCH, TOKENS, HELD_OUT, SCALE = 32, 24, 400, 20.0


def reciprocal_rank(model: Any, pairs: list[DocstringPair]) -> float:
    """The mean over the pairs' docstrings of 1 / rank of their code among all of the pairs."""
    x, y = (
        model.encode([getattr(pair, side) for pair in pairs], normalize_embeddings=True) for side in ("doc", "code")
    )
    scores = x @ y.T
    return float(np.mean(1 / (1 + (scores > np.diag(scores)[:, None]).sum(axis=1))))


def token_embedding(model: Any, trainer: Any) -> Callable[[Any], Any]:
    """The mean of the static embeddings of a text's tokens, without a pass of the model."""
    table = model[0].auto_model.get_input_embeddings()

    def embed(batch: Any) -> Any:
        features, _ = trainer.collect_features(batch)
        return [(table(side["input_ids"]) * side["attention_mask"][..., None]).sum(dim=1) for side in features]

    return embed


def run(asked: argparse.Namespace, arm: str, seed: int) -> None:
    """One epoch, written to the file of results."""
    pairs = choose_pairs(collect_pairs(list_standard_library()), asked.rows + HELD_OUT, seed)
    train, held_out = pairs[: asked.rows], pairs[asked.rows :]
    model = SentenceTransformer(asked.model, device="cpu", local_files_only=True)
    model.max_seq_length = TOKENS
    before = reciprocal_rank(model, held_out) if arm == "random" else float("nan")
    arguments = SentenceTransformerTrainingArguments(
        output_dir=f"{asked.out}.trained",
        num_train_epochs=1,
        per_device_train_batch_size=BATCH,
        learning_rate=5e-5,
        warmup_steps=4,
        seed=seed,
        logging_steps=1000,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    data = Dataset.from_dict({"anchor": [pair.doc for pair in train], "positive": [pair.code for pair in train]})
    loss = losses.MultipleNegativesRankingLoss(model, scale=SCALE)
    trainer = SentenceTransformerTrainer(model=model, args=arguments, train_dataset=data, loss=loss)
    embed = token_embedding(model, trainer) if arm == "tokens" else None
    planned = gcbs.plan_batches(trainer, embed=embed, first="random" if arm == "random" else "plan")
    started = time.process_time()
    trainer.train()
    spent = time.process_time() - started
    found = {"arm": arm, "seed": seed, "rows": asked.rows, "before": 100 * before, "cpu_seconds": spent}
    found |= {"mrr": 100 * reciprocal_rank(model, held_out), **(planned.history[0] if planned.history else {})}
    with Path(asked.out).open("a") as out:
        print(json.dumps(found), file=out)
    print(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--seeds", type=int, default=2)
    asked = parser.parse_args()
    for seed in range(asked.seeds):
        for arm in ("random", "tokens", "plan"):
            run(asked, arm, seed)
