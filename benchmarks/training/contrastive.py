"""What the training benchmarks share: the rank of the right answer, batches, and the machine's name."""

import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

QUERIES_AT_ONCE = 1024


def choose_device() -> torch.device:
    """A GPU when there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def working_seconds() -> float:
    """A clock for differences: seconds of all threads of this process, which other work on the machine leaves alone;
    seconds of the wall where a GPU does the work.
    """
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def reciprocal_rank(queries: Tensor, candidates: Tensor, answers: Tensor) -> float:
    """Mean reciprocal rank of each query's answer among all candidates, 0 to 1.

    queries: (q, d), candidates: (c, d), answers: (q,) index of the right candidate. Equal scores share the mean rank.
    """
    found = []
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        scores = queries[start : start + QUERIES_AT_ONCE] @ candidates.T
        right = scores.gather(1, answers[start : start + QUERIES_AT_ONCE, None])
        above, equal = (scores > right).sum(dim=1), (scores == right).sum(dim=1) - 1
        found.append(1.0 / (1.0 + above + 0.5 * equal))
    return float(torch.cat(found).mean())


def planned_batches(
    perm: NDArray[np.int64], batch_size: int, generator: np.random.Generator | None
) -> Iterator[NDArray[np.int64]]:
    """The batches of a permutation, in random order where a generator is given."""
    starts = np.arange(0, len(perm), batch_size)
    for start in starts if generator is None else generator.permutation(starts):
        yield perm[start : start + batch_size]


def processor_name() -> str:
    """The processor as its maker calls it, and how many cores this process may use."""
    name = platform.processor() or platform.machine()
    described = Path("/proc/cpuinfo")
    if described.exists():
        lines = (line.partition(":") for line in described.read_text().splitlines())
        name = next((value.strip() for key, _, value in lines if key.strip() == "model name"), name)
    return f"{name}, {len(os.sched_getaffinity(0))} cores"
