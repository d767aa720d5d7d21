"""Results as JSON lines, one run a line, and what is said of several seeds: mean, deviation, paired differences."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Record = dict[str, Any]


def read_records(path: Path) -> list[Record]:
    """All runs of a file, none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add_record(path: Path, record: Record) -> None:
    """Append a run, so that a later failure loses nothing."""
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def is_done(records: Iterable[Record], name: str, seed: int) -> bool:
    """Whether a run of this method and seed is there."""
    return any(record["name"] == name and record["seed"] == seed for record in records)


def by_seed(records: Iterable[Record], value: Callable[[Record], float]) -> dict[str, dict[int, float]]:
    """method → seed → value, methods in the order of their first run."""
    found: dict[str, dict[int, float]] = {}
    for record in records:
        found.setdefault(record["name"], {})[record["seed"]] = value(record)
    return found


def spread(values: Sequence[float], digits: int = 1, sign: str = "") -> str:
    """Mean ± standard deviation of a sample."""
    deviation = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):{sign}.{digits}f}{deviation}".replace("-", "−") if values else "–"


def paired(values: dict[int, float], against: dict[int, float]) -> list[float]:
    """Differences of runs of the same seed."""
    return [values[seed] - against[seed] for seed in sorted(values.keys() & against.keys())]


def differences(found: dict[str, dict[int, float]], name: str) -> list[str]:
    """How much better a method is than random batches, and than RCM's, seed by seed; nothing against itself."""
    return [
        "" if other == name else spread(paired(found[name], found.get(other, {})), 2, "+")
        for other in ("random", "rcm")
    ]


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
