"""Train heads on frozen embeddings by every plan, on every corpus: the trial of `gcbs compare --train`.

for name in code phrases titles words glyphs; do python benchmarks/planning/corpora.py $name corpora/$name; done
python benchmarks/planning/trial.py corpora
python benchmarks/planning/table.py

A run appends one line to results.jsonl; runs that are there are passed over, so that a stopped benchmark goes on.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from plans import BATCH_SIZE, PLANS, TEMPERATURE, plan_named, plans_for, settings_of
from records import RESULTS, Record, add_record, processor_name, read_records

from gcbs_cli.comparison.trial import Trial, TrialSettings
from gcbs_cli.data.arrays import open_arrays

CORPORA = ("code", "phrases", "titles", "words", "glyphs")
ROWS, EPOCHS = 12_000, 5


def load(folder: Path) -> Trial:
    """The trial of one corpus. Right answers are those with the same text; no plan is told of them."""
    x, y = (np.load(folder / f"{side}.npy")[:ROWS] for side in "xy")
    inputs: dict[str, Any] = {}
    if (folder / "texts.parquet").exists():
        import pyarrow.parquet as pq

        inputs["texts"] = pq.read_table(folder / "texts.parquet")["doc"].to_pylist()[:ROWS]
    settings = TrialSettings(BATCH_SIZE, TEMPERATURE, epochs=EPOCHS)
    return Trial(open_arrays(x, y).read(), settings, inputs=inputs)


def run(trial: Trial, corpus: str, name: str, seed: int) -> Record:
    """One line: scores, seconds, and what was trained."""
    plan, began = plan_named(name), time.process_time()
    found = trial.run_one(name, plan, seed)
    return {
        "corpus": corpus,
        "plan": name,
        "seed": seed,
        "settings": settings_of(plan),
        "mrr": round(found.mrr, 3),
        "recall": {first: round(share, 4) for first, share in found.recall.items()},
        "validation": [round(mrr, 3) for mrr in found.validation],
        "epoch": found.epoch,
        "plan_seconds": round(found.plan_seconds, 3),
        "train_seconds": round(found.train_seconds, 3),
        "processor_seconds": round(time.process_time() - began, 1),
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
    parser.add_argument("--plans", nargs="+", default=PLANS, choices=PLANS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    options = parser.parse_args(arguments)
    trials = {name: load(options.data / name) for name in options.corpora}
    for seed in options.seeds:
        for corpus, trial in trials.items():
            for name in plans_for(options.plans, texts=(options.data / corpus / "texts.parquet").exists()):
                wanted = {"corpus": corpus, "plan": name, "seed": seed, "settings": settings_of(plan_named(name))}
                if any(wanted.items() <= record.items() for record in read_records(options.out)):
                    continue
                record = run(trial, corpus, name, seed)
                add_record(options.out, record)
                print(f"{corpus}, {name}, seed {seed}: {record['mrr']:.2f}", flush=True)


if __name__ == "__main__":
    main()
