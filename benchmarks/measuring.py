"""What the benchmarks share: the machine's name, data, timed runs in turn, and tables."""

import os
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.opening import open_pair
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.reading import PairStream
from gcbs_cli.system.limits import available_cpus
from gcbs_cli.system.threads import in_parts

ROWS_AT_ONCE = 1 << 14
TRIAL_ROWS = 16384
ROUNDS, CALLS = 5, 20


def machine() -> str:
    """Cores in use and the processor's name, and the GPU's if there is one."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            name = next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    import torch

    gpu = f", one {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{available_cpus()} cores of an {name}{gpu}; torch {torch.__version__}, numpy {np.__version__}"


def read_data(folder: Path) -> PairedRows:
    """The unit rows of a folder's x.npy and y.npy."""
    return PairStream(*open_pair(str(folder / "x.npy"), str(folder / "y.npy"))).read()


def run_in_turn(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of every work in each round: A B C, A B C, so that a drift of the machine meets all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - began)
    return seconds


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median_ratio(some: list[float], others: list[float]) -> float:
    """Median over the rounds of one time over the other."""
    return statistics.median(a / b for a, b in zip(some, others, strict=True))


def bare_product(pair: PairedRows) -> Callable[[], object]:
    """All N² float32 products and nothing else, into memory that is already there, by numpy or torch: the quicker."""
    import torch

    strip = min(pair.rows, 4096)
    out = np.empty((strip, pair.rows), np.float32)
    left, right, into = torch.from_numpy(pair.x), torch.from_numpy(pair.y), torch.from_numpy(out)

    def by_numpy() -> None:
        for start in range(0, pair.rows, strip):
            part = pair.x[start : start + strip]
            np.matmul(part, pair.y.T, out=out[: len(part)])

    def by_torch() -> None:
        for start in range(0, pair.rows, strip):
            part = left[start : start + strip]
            torch.mm(part, right.T, out=into[: len(part)])

    def trial(work: Callable[[], object]) -> float:
        work()
        return seconds_of(work)

    def strip_by_numpy() -> None:
        np.matmul(pair.x[:strip], pair.y.T, out=out[: len(pair.x[:strip])])

    def strip_by_torch() -> None:
        torch.mm(left[:strip], right.T, out=into[: len(left[:strip])])

    return by_numpy if trial(strip_by_numpy) <= trial(strip_by_torch) else by_torch


def markdown_table(header: list[str], lines: list[list[str]]) -> str:
    """A table as Markdown."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *lines])


def random_unit_rows(rows: int, dim: int, seed: int | list[int]) -> NDArray[np.float32]:
    """(rows, dim) float32 unit rows, uniform on the sphere, as in GCBS's scaling figures."""
    values = np.random.default_rng(seed).standard_normal((rows, dim), dtype=np.float32)
    values /= np.sqrt(np.einsum("ij,ij->i", values, values))[:, None]
    return values


def write_unit_rows(path: Path, rows: int, dim: int, seed: int) -> None:
    """Such rows as a .npy file, written by all cores at once."""
    values = np.lib.format.open_memmap(path, "w+", np.float32, (rows, dim))

    def fill(start: int, stop: int) -> None:
        values[start:stop] = random_unit_rows(stop - start, dim, [seed, start])

    in_parts(rows, ROWS_AT_ONCE, fill)
    values.flush()


def product_rates(dim: int, device: str) -> dict[str, float]:
    """Operations a second of a GPU's products at this width, by type: each call fills the device, and many are timed
    together.
    """
    import torch

    ways: dict[str, tuple[torch.dtype, Callable[..., torch.Tensor]]] = {
        "int8": (torch.int8, torch._int_mm),
        "float16": (torch.float16, partial(torch.mm, out_dtype=torch.float32)),
        "bfloat16": (torch.bfloat16, torch.mm),
        "float32": (torch.float32, torch.mm),
    }
    rates = {}
    for name, (kind, multiply) in ways.items():
        left, right = (torch.randint(-127, 128, (TRIAL_ROWS, dim), device=device).to(kind) for _ in "xy")
        try:
            seconds = gpu_seconds(partial(multiply, left, right.T), CALLS)
        except (RuntimeError, TypeError) as error:
            print(f"{name}: {str(error)[:200]}", flush=True)
            continue
        rates[name] = 2.0 * TRIAL_ROWS * TRIAL_ROWS * dim / seconds
    return rates


def gpu_seconds(work: Callable[[], object], calls: int = 1) -> float:
    """Seconds of a call on the current GPU: the median of some rounds of so many calls, after one that is not timed."""
    import torch

    work()
    times = []
    for _ in range(ROUNDS):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        began.record()
        for _ in range(calls):
            work()
        ended.record()
        ended.synchronize()
        times.append(began.elapsed_time(ended) / 1000.0 / calls)
    return statistics.median(times)


def follow_thread_limit() -> None:
    """Let torch use as many threads as gcbs does."""
    import torch

    torch.set_num_threads(available_cpus())
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
