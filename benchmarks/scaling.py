"""Time `gcbs plan` against N on random unit rows, step by step, beside the figures of GCBS's paper.

d = 768 and 512 entries a row expected above the threshold, as in the paper (one A40). The floor is the bare product of
X Yᵀ alone, at the rate of a product that fills the device. On a GPU the sweep goes to a
million rows, on a CPU to what takes minutes; ``--rows`` says otherwise.
Usage: ``python benchmarks/scaling.py`` or ``python benchmarks/scaling.py --device cuda --rows 100000 5000000``
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from measuring import (
    follow_thread_limit,
    machine,
    markdown_table,
    product_rates,
    random_unit_rows,
    seconds_of,
    write_unit_rows,
)

from gcbs_cli.products.devices import choose_backend

PAPER_SECONDS = {10_000: 2.56, 50_000: 14.8, 100_000: 34.7, 500_000: 322.5, 1_000_000: 1013.0, 5_000_000: 3956.0}
"""GCBS's figures: one A40; 5,000,000 rows on seven GPUs."""
CPU_ROWS = [5_000, 10_000, 20_000, 40_000]
GPU_ROWS = [10_000, 50_000, 100_000, 500_000, 1_000_000]
STEPS = ["read", "quantile", "edges", "order", "measures"]
TRIAL_ROWS = 2048
TRIALS = 5


def host_rate(dim: int) -> float:
    """Floating-point operations a second of the quicker float32 product, torch's or numpy's, on random rows."""
    import torch

    x, y = random_unit_rows(TRIAL_ROWS, dim, 0), random_unit_rows(TRIAL_ROWS, dim, 1)
    out = np.empty((TRIAL_ROWS, TRIAL_ROWS), np.float32)
    left, right, into = (torch.from_numpy(array) for array in (x, y, out))
    ways = [lambda: np.matmul(x, y.T, out=out), lambda: torch.mm(left, right.T, out=into)]
    seconds = [median([seconds_of(way) for _ in range(TRIALS + 1)][1:]) for way in ways]
    return 2.0 * TRIAL_ROWS * TRIAL_ROWS * dim / min(seconds)


def time_plan(folder: Path, rows: int, options: argparse.Namespace) -> tuple[list[float], dict[str, float]]:
    """Seconds of each whole process, from .npy on disk to the written permutation, and of the last one's steps."""
    for seed, name in enumerate("xy"):
        write_unit_rows(folder / f"{name}.npy", rows, options.dim, seed)
    output = folder / "perm.npy"
    command = [sys.executable, "-m", "gcbs_cli", "plan", str(folder / "x.npy"), str(folder / "y.npy"), "-q", "--force"]
    command += ["-o", str(output), "--per-row", str(options.per_row), "--device", options.device]
    whole = [seconds_of(lambda: subprocess.run(command, check=True)) for _ in range(options.rounds)]
    manifest = json.loads(output.with_name("perm.npy.manifest.json").read_text())
    return whole, manifest["timings"]


def main(arguments: list[str] | None = None) -> None:
    """Print the table and the fitted exponent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", help="the N to time")
    parser.add_argument("--dim", type=int, default=768, help="columns (default %(default)s)")
    parser.add_argument("--per-row", type=int, default=512, help="entries a row (default %(default)s)")
    parser.add_argument("--device", default="auto", help="as for gcbs plan (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each N (default 1)")
    parser.add_argument("--scratch", type=Path, help="folder for the data (default: a temporary one)")
    options = parser.parse_args(arguments)
    follow_thread_limit()
    backend = choose_backend(options.device)
    options.device, kind = backend.name, "float32 product"
    rows_to_time = options.rows or (CPU_ROWS if options.device == "cpu" else GPU_ROWS)
    print(f"{machine()}; d={options.dim}, {options.per_row} entries a row, {options.device}")
    if options.device == "cpu":
        rates = {kind: host_rate(options.dim)}
    else:
        kind, each = "bfloat16 product", product_rates(options.dim, backend.devices[0])
        rates = {f"{name} product": len(backend.devices) * rate for name, rate in each.items()}
    for name, rate in rates.items():
        print(f"Bare {name}: {rate / 1e9:,.0f} GF/s")
    print(
        f"The floor is 2·N²·d at the rate of the {kind}; the first run is cold, the others' median warm\n", flush=True
    )
    lines, warm = [], []
    for rows in rows_to_time:
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            whole, times = time_plan(Path(folder), rows, options)
        floor = 2.0 * rows * rows * options.dim / rates[kind]
        warm.append(median(whole[1:] or whole))
        lines.append(
            [
                f"{rows:,}",
                f"{whole[0]:.2f}",
                f"{warm[-1]:.2f}",
                *(f"{times.get(step, 0.0):.2f}" for step in STEPS),
                f"{floor:.2f}",
                f"{warm[-1] / floor:.1f}",
                f"{PAPER_SECONDS[rows]:,.1f}" if rows in PAPER_SECONDS else "–",
                f"{PAPER_SECONDS[rows] / warm[-1]:.0f}×" if rows in PAPER_SECONDS else "–",
            ]
        )
        print(f"{rows:,} rows: {', '.join(f'{seconds:.2f}' for seconds in whole)} s", flush=True)
    header = ["N", "first process, s", "process, s", *STEPS, "floor, s", "process / floor", "paper (A40), s"]
    print("\n" + markdown_table([*header, "paper / gcbs"], lines))
    if len(rows_to_time) > 1:
        exponent = np.polyfit(np.log(rows_to_time), np.log(warm), 1)[0]
        print(f"\nTime grows as N^{exponent:.2f}")


if __name__ == "__main__":
    main()
