"""Time the refinement of a plan by its number of threads, in turn, and say what it does to the gap.

The edges, the weights and the order that it begins with are made once. Needs pymetis for `--methods metis`.
Usage: ``python benchmarks/refinement.py codedoc --methods rcm metis --rounds 3`` (a folder with x.npy and y.npy, as
``benchmarks/make_codedoc.py`` makes)
"""

import argparse
import os
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from measuring import follow_thread_limit, machine, markdown_table, read_data, run_in_turn

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.hard_pairs import find, hard_pairs, list_length, weigh_every_row
from gcbs_cli.orders import METHODS, MethodInput
from gcbs_cli.orders.refinement import Refinement, refine
from gcbs_cli.orders.swap_gains import SwapGains
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.reports.basis import ReportInputs
from gcbs_cli.reports.losses import OrderReports
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.limits import available_cpus

HEADER = ["", "threads", "seconds, median", "least–most", "swaps", "reduction before", "after"]


def beginning(pair: PairedRows, method: str, settings: PlanSettings) -> tuple[np.ndarray, SwapGains]:
    """The order that a method gives, and what swaps on its graph of the hardest gain."""
    backend = choose_backend(settings.device)
    threshold = find_threshold(pair.grid, settings, settings.seed, backend)
    found = find(pair.grid, threshold, backend, lists=list_length(settings), seed=settings.seed)
    hard = hard_pairs(pair, settings, found)
    weighted = weigh_every_row(hard, pair, settings)
    given = MethodInput(pair, settings, backend, hard.graph, weighted)
    return METHODS[method].order(given), given.gains()


def timed(
    perm: np.ndarray, gains: SwapGains, settings: PlanSettings, threads: list[int], rounds: int
) -> tuple[dict[str, list[float]], np.ndarray, Refinement]:
    """Seconds by number of threads, and the result, which must not depend on it."""
    found: list[tuple[np.ndarray, Refinement]] = []

    def work(count: int) -> None:
        os.environ["OMP_NUM_THREADS"] = str(count)
        found.append(refine(perm, gains, settings.batch_size, seed=settings.seed))

    work(threads[0])  # compiles, once for each machine
    seconds = run_in_turn({str(count): partial(work, count) for count in threads}, rounds)
    os.environ.pop("OMP_NUM_THREADS")
    if any(not np.array_equal(order, found[0][0]) for order, _ in found):
        raise SystemExit("the order depends on the number of threads")
    return seconds, *found[0]


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with x.npy and y.npy")
    parser.add_argument("--methods", nargs="+", default=["rcm", "metis"], help="what to begin with (default rcm metis)")
    parser.add_argument("--batch-size", "-k", type=int, default=64, help="rows a batch (default %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.05, help="of the loss (default %(default)s)")
    parser.add_argument("--top", type=int, default=16, help="hardest of each row (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the plan (default %(default)s)")
    parser.add_argument("--threads", type=int, nargs="+", help="numbers of threads (default: 1 and all)")
    parser.add_argument("--rounds", type=int, default=3, help="times that all are run in turn (default %(default)s)")
    options = parser.parse_args(arguments)
    follow_thread_limit()
    pair, threads = read_data(options.data), options.threads or sorted({1, available_cpus()})
    settings = PlanSettings(
        batch_size=options.batch_size,
        graph="top-m",
        top=options.top,
        temperature=options.temperature,
        seed=options.seed,
        device="cpu",
    )
    asked = ReportSettings(batch_sizes=(options.batch_size,), temperatures=(options.temperature,), device="cpu")
    reports = OrderReports(ReportInputs(pair, asked), asked.losses[0], options.batch_size)
    lines = []
    for method in options.methods:
        perm, gains = beginning(pair, method, settings)
        seconds, refined, record = timed(perm, gains, settings, threads, options.rounds)
        before, after = (f"{reports.of(order)[0].report.gap.reduction:.4f}" for order in (perm, refined))
        for count, times in seconds.items():
            spread = f"{min(times):.2f}–{max(times):.2f}"
            lines.append([method, count, f"{median(times):.2f}", spread, f"{record.swaps:,}", before, after])
    print(f"{machine()}; k={options.batch_size}, {options.top} hardest, median of {options.rounds} rounds\n")
    print(markdown_table(HEADER, lines))


if __name__ == "__main__":
    main()
