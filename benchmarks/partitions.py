"""Time and peak memory of `gcbs plan --partitions` against N, at a fixed number of rows a part.

The data are synthetic: clusters of unit rows, y near x, written block by block. Each plan is a process of its own,
whose peak resident memory is what the system counted.
Usage: ``python benchmarks/partitions.py --scratch /somewhere/large``
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measuring import machine, markdown_table
from numpy.typing import NDArray

ROWS = [62_500, 125_000, 250_000, 500_000, 1_000_000]
STEPS = ["centres", "parts", "plans"]
BLOCK_ROWS = 1 << 16
SPREAD = 0.9
"""Norm of what is added to a row's cluster centre, which has norm 1."""
NOISE = 0.6
"""Norm of what a pair's sides differ by from what they share."""


def write_clustered_pairs(folder: Path, rows: int, dim: int, clusters: int, seed: int = 0) -> None:
    """x.npy and y.npy, (rows, dim) float32 each: pairs around `clusters` random centres, one block in memory."""
    generator = np.random.default_rng(seed)
    centres = _unit(generator.standard_normal((clusters, dim), dtype=np.float32))
    files = [
        np.lib.format.open_memmap(folder / f"{side}.npy", "w+", np.dtype(np.float32), (rows, dim)) for side in "xy"
    ]
    for start in range(0, rows, BLOCK_ROWS):
        count = min(BLOCK_ROWS, rows - start)
        shared = centres[generator.integers(clusters, size=count)]
        shared = shared + SPREAD * _unit(generator.standard_normal((count, dim), dtype=np.float32))
        for file in files:
            own = NOISE * _unit(generator.standard_normal((count, dim), dtype=np.float32))
            file[start : start + count] = _unit(shared + own)
    for file in files:
        file.flush()


MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Run in a small process: what a child's peak counts begins with the memory of the process that it was forked from."""


def run_plan(command: list[str]) -> tuple[float, int]:
    """Wall-clock seconds and peak resident bytes of a process. Raises where it fails."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", MEASURE, *command], check=True, capture_output=True, text=True)
    return time.perf_counter() - began, int(done.stdout.split()[-1]) * 1024


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows / np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="the N (default %(default)s)")
    parser.add_argument("--part-rows", type=int, default=62_500, help="rows of a part (default %(default)s)")
    parser.add_argument("--dim", type=int, default=64, help="columns (default %(default)s)")
    parser.add_argument("--clusters", type=int, default=2000, help="clusters of the data (default %(default)s)")
    parser.add_argument("--scratch", type=Path, help="folder for the data (default: a temporary one)")
    parser.add_argument("options", nargs="*", help="options of gcbs plan, after --")
    options = parser.parse_args(arguments)
    print(
        f"{machine()}; d={options.dim}, {options.clusters:,} clusters, parts of {options.part_rows:,} rows", flush=True
    )
    lines = []
    for rows in options.rows:
        with tempfile.TemporaryDirectory(dir=options.scratch) as name:
            folder = Path(name)
            write_clustered_pairs(folder, rows, options.dim, options.clusters)
            parts = max(1, round(rows / options.part_rows))
            command = [sys.executable, "-m", "gcbs_cli", "plan", str(folder / "x.npy"), str(folder / "y.npy"), "-q"]
            command += ["--partitions", str(parts), "-o", str(folder / "plan.npy"), *options.options]
            seconds, peak = run_plan(command)
            entry = json.loads((folder / "plan.npy.manifest.json").read_text())
        line = [f"{rows:,}", f"{parts}", f"{seconds:.0f}", *(f"{entry['timings'][step]:.1f}" for step in STEPS)]
        both = 2 * rows * options.dim * 4
        lines.append([*line, f"{entry['partitions']['edges']:,}", f"{both / 2**20:,.0f}", f"{peak / 2**20:,.0f}"])
        print(" | ".join(lines[-1]), flush=True)
    header = ["N", "parts", "process, s", *(f"{step}, s" for step in STEPS), "edges", "X and Y, MiB", "peak, MiB"]
    print("\n" + markdown_table(header, lines))


if __name__ == "__main__":
    main()
