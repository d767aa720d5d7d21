"""Train heads on frozen embeddings by every plan, on every corpus: the trial of `gcbs compare --train`.

for name in code phrases titles words glyphs; do python benchmarks/planning/corpora.py $name corpora/$name; done
python benchmarks/planning/trial.py corpora
python benchmarks/planning/table.py

A run appends one line to results.jsonl; runs that are there are passed over, so that a stopped benchmark goes on.
"""

import argparse
import time
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from plans import BATCH_SIZE, PLANS, TEMPERATURE, VARIANTS, plan_named, plans_for, settings_of
from records import RESULTS, Record, add_record, processor_name, read_records
from torch.nn.functional import cross_entropy

from gcbs_cli.comparison.heads import Heads, one_thread
from gcbs_cli.comparison.trial import LEARNING_RATE, OrderFunction, Trial, TrialSettings
from gcbs_cli.data.opening import open_arrays
from gcbs_cli.settings.plan import PlanSettings

CORPORA = ("code", "phrases", "titles", "words", "glyphs")
ROWS, EPOCHS = 12_000, 5
ALL_ROWS = "all rows"
"""Not a plan: the loss that every plan tries to come near."""


class PeerTrial(Trial):
    """Plans may be a permutation and (n, l) rows whose y each row brings to its batch as more negatives."""

    def _epoch(
        self, heads: Heads, rows: NDArray[np.int64], make_order: OrderFunction, seed: int
    ) -> tuple[float, float, float]:
        start = time.perf_counter()
        plan = make_order(*heads.embed(rows), seed)
        perm, negatives = plan if isinstance(plan, tuple) else (plan, np.empty((len(plan), 0), np.int64))
        planned, size = time.perf_counter(), self.settings.batch_size
        for place in np.random.default_rng(seed).permutation(np.arange(0, len(perm), size)):
            batch = perm[place : place + size]
            keys = np.concatenate([batch, negatives[batch].ravel()])
            heads.train(rows[batch], rows[keys], self.settings.temperature)
        trained = time.perf_counter()
        return planned - start, trained - planned, self._validate(heads)


class AllRowsHeads(Heads):
    """Trained on the loss over all rows, whatever the batches."""

    trained: NDArray[np.int64]

    def train(self, queries: NDArray[np.int64], keys: NDArray[np.int64], temperature: float) -> None:
        sides = [self.outputs(self.trained, side) for side in (0, 1)]
        right = torch.from_numpy(np.searchsorted(self.trained, queries))
        loss = 0.5 * sum(
            cross_entropy(asked[right] @ answers.T / temperature, right) for asked, answers in (sides, reversed(sides))
        )
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[union-attr]
        self._optimizer.step()


class AllRowsTrial(Trial):
    """Random batches of anchors, and every row a negative of each."""

    def _heads(self) -> Heads:
        heads = AllRowsHeads(self._pairs, self.settings.device, LEARNING_RATE)
        heads.trained = np.sort(self.split.train)
        return heads


@cache
def trial_of(folder: Path, settings: TrialSettings, kind: type[Trial] = PeerTrial) -> Trial:
    """The trial of one corpus. Right answers are those with the same text; no plan is told of them."""
    x, y = (np.load(folder / f"{side}.npy")[:ROWS] for side in "xy")
    texts = None
    if (folder / "texts.parquet").exists():
        import pyarrow.parquet as pq

        texts = pq.read_table(folder / "texts.parquet")["doc"].to_pylist()[:ROWS]
    return kind(open_arrays(x, y).read(), settings, texts=texts)


def plan_of(name: str, batch_size: int) -> PlanSettings | OrderFunction:
    """What the trial is given for a name."""
    return plan_named("random" if name == ALL_ROWS else name, batch_size)


def run(trial: Trial, corpus: str, name: str, seed: int) -> Record:
    """One line: scores, seconds, and what was trained."""
    plan, began = plan_of(name, trial.settings.batch_size), time.process_time()
    with one_thread():
        found = trial.run_one(name, plan, seed)
    return {
        "corpus": corpus,
        "plan": name,
        "seed": seed,
        "settings": settings_of(plan),
        "mrr": round(found.mrr, 3),
        "recall": {first: round(float(np.mean(found.reciprocal_ranks >= 1 / first)), 4) for first in (1, 10)},
        "validation": [round(mrr, 3) for mrr in found.validation],
        "epoch": int(np.flatnonzero(found.validation == np.max(found.validation))[-1]),
        "plan_seconds": round(found.plan_seconds, 3),
        "train_seconds": round(found.train_seconds, 3),
        "processor_seconds": round(time.process_time() - began, 3),
        "train_rows": len(trial.split.train),
        "candidates": len(trial.split.candidates),
        "processor": processor_name(),
    }


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the corpora's folders")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--corpora", nargs="+", default=CORPORA, choices=CORPORA)
    parser.add_argument("--plans", nargs="+", default=PLANS, choices=[*PLANS, *VARIANTS, ALL_ROWS])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--batch-size", type=int, default=BATCH_SIZE)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args(arguments)
    settings = TrialSettings(options.batch_size, TEMPERATURE, epochs=options.epochs)
    for seed, corpus in product(options.seeds, options.corpora):
        for name in plans_for(options.plans, texts=(options.data / corpus / "texts.parquet").exists()):
            asked = settings_of(plan_of(name, options.batch_size))
            wanted = {"corpus": corpus, "plan": name, "seed": seed, "settings": asked}
            if any(wanted.items() <= record.items() for record in read_records(options.out)):
                continue
            trial = trial_of(options.data / corpus, settings, AllRowsTrial if name == ALL_ROWS else PeerTrial)
            record = run(trial, corpus, name, seed)
            add_record(options.out, record)
            print(f"{corpus}, {name}, seed {seed}: {record['mrr']:.2f}", flush=True)


if __name__ == "__main__":
    main()
