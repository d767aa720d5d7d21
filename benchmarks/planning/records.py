"""Runs as JSON lines, and what is said of several seeds."""

import json
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Record = dict[str, Any]
RESULTS = Path(__file__).with_name("results.jsonl")
ENCODER_RESULTS = Path(__file__).with_name("encoders.jsonl")


def read_records(path: Path) -> list[Record]:
    """All runs of a file, none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add_record(path: Path, record: Record) -> None:
    """Append a run, so that a later failure loses nothing."""
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def by_seed(records: Iterable[Record], corpus: str, plan: str, key: str = "mrr") -> dict[int, float]:
    """seed → value; of two runs of one seed, the later."""
    return {run["seed"]: run[key] for run in records if (run["corpus"], run["plan"]) == (corpus, plan)}


def gains(records: Sequence[Record], corpus: str, plan: str, over: str = "random") -> list[float]:
    """Differences of MRR × 100, of the seeds that both have."""
    ours, theirs = (by_seed(records, corpus, name) for name in (plan, over))
    return [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Signed mean ± standard deviation of a sample."""
    deviation = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):+.{digits}f}{deviation}".replace("-", "−") if values else "–"


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose first column holds words."""
    rows = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def processor_name() -> str:
    """The processor as its maker calls it, and how many cores this process may use."""
    name = platform.processor() or platform.machine()
    described = Path("/proc/cpuinfo")
    if described.exists():
        lines = (line.partition(":") for line in described.read_text().splitlines())
        name = next((value.strip() for key, _, value in lines if key.strip() == "model name"), name)
    return f"{name}, {len(os.sched_getaffinity(0))} cores"
