"""What --warm-start saves: the time of each quantile method beside confirming an earlier threshold, in turn in one run.

The earlier plan is one of the same embeddings before each row moved by a little noise, as between two epochs.
Usage: ``python benchmarks/warm_start.py codedoc --rounds 5`` (a folder with x.npy and y.npy)
"""

import argparse
from pathlib import Path
from statistics import median

import numpy as np
from measuring import follow_thread_limit, machine, markdown_table, median_ratio, read_data, run_in_turn
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.settings.plan import GraphSettings, PlanSettings

QUANTILE = 0.999
NOISE = 0.1
"""Length of the step that each row makes, beside its own length of 1."""


def moved(side: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """The rows after a small random step, unit again."""
    step = np.random.default_rng(seed).standard_normal(side.shape, dtype=np.float32)
    rows: NDArray[np.float32] = side + step * np.float32(NOISE / np.sqrt(side.shape[1]))
    rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with x.npy and y.npy")
    parser.add_argument("--rounds", type=int, default=5, help="times that all are run in turn (default %(default)s)")
    options = parser.parse_args(arguments)
    follow_thread_limit()
    pair = read_data(options.data)
    earlier = make_plan(pair, PlanSettings(graph=GraphSettings(quantile=QUANTILE), device="cpu")).threshold
    assert earlier is not None
    now = PairedRows(moved(pair.x, 0), moved(pair.y, 1))
    graphs = {
        f"--quantile-method {name}": GraphSettings(QUANTILE, method=name) for name in ("sample", "chunks", "exact")
    }
    graphs["--warm-start"] = GraphSettings(QUANTILE, warm_start=earlier.value)
    steps: dict[str, list[float]] = {name: [] for name in graphs}

    def plan(name: str) -> None:
        steps[name].append(make_plan(now, PlanSettings(graph=graphs[name], device="cpu")).seconds["quantile"])

    whole = run_in_turn({name: lambda name=name: plan(name) for name in graphs}, options.rounds)  # type: ignore[misc]
    print(f"{machine()}; median of {options.rounds} rounds\n")
    lines = [
        [
            name,
            f"{median(steps[name]):.3f}",
            f"{median(whole[name]):.2f}",
            f"{median_ratio(whole['--warm-start'], whole[name]):.2f}",
        ]
        for name in graphs
    ]
    print(markdown_table(["", "quantile step, s", "plan, s", "warm start / this"], lines))


if __name__ == "__main__":
    main()
