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
from measuring import follow_thread_limit, machine, markdown_table, random_unit_rows, seconds_of

from gcbs_cli.products.devices import choose_backend

PAPER_SECONDS = {10_000: 2.56, 50_000: 14.8, 100_000: 34.7, 500_000: 322.5, 1_000_000: 1013.0, 5_000_000: 3956.0}
"""GCBS's figures: one A40; 5,000,000 rows on seven GPUs."""
CPU_ROWS = [5_000, 10_000, 20_000, 40_000]
GPU_ROWS = [10_000, 50_000, 100_000, 500_000, 1_000_000]
STEPS = ["read", "quantile", "edges", "order", "measures"]
TRIAL_ROWS = 8192
TRIALS = 5


def product_rate(dim: int, device: str) -> float:
    """Floating-point operations a second of the quickest product that the device has at hand, on random rows."""
    import torch

    kinds = [torch.bfloat16] if device != "cpu" else [torch.float32]
    rows = TRIAL_ROWS if device != "cpu" else TRIAL_ROWS // 4
    best = 0.0
    for kind in kinds:
        left, right = (torch.from_numpy(random_unit_rows(rows, dim, seed)).to(device, kind) for seed in (0, 1))

        def product(left: "torch.Tensor" = left, right: "torch.Tensor" = right) -> None:
            left @ right.T
            if device != "cpu":
                torch.cuda.synchronize()

        product()
        best = max(best, 2.0 * rows * rows * dim / median(seconds_of(product) for _ in range(TRIALS)))
    if device == "cpu":
        x, y = random_unit_rows(rows, dim, 0), random_unit_rows(rows, dim, 1)
        out = np.empty((rows, rows), np.float32)
        np.matmul(x, y.T, out=out)
        times = [seconds_of(lambda: np.matmul(x, y.T, out=out)) for _ in range(TRIALS)]
        best = max(best, 2.0 * rows * rows * dim / median(times))
    return best


def time_plan(folder: Path, rows: int, options: argparse.Namespace) -> dict[str, float]:
    """Seconds of the whole process and of its steps, from .npy on disk to the written permutation."""
    for seed, name in enumerate("xy"):
        np.save(folder / f"{name}.npy", random_unit_rows(rows, options.dim, seed))
    output = folder / "perm.npy"
    command = [sys.executable, "-m", "gcbs_cli", "plan", str(folder / "x.npy"), str(folder / "y.npy"), "-q", "--force"]
    command += ["-o", str(output), "--per-row", str(options.per_row), "--device", options.device]
    whole = [seconds_of(lambda: subprocess.run(command, check=True)) for _ in range(options.rounds)]
    manifest = json.loads(output.with_name("perm.npy.manifest.json").read_text())
    return {"whole": median(whole), **manifest["entries"][-1]["timings"]}


def main(arguments: list[str] | None = None) -> None:
    """Print the table and the fitted exponent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", help="the N to time")
    parser.add_argument("--dim", type=int, default=768, help="columns (default %(default)s)")
    parser.add_argument("--per-row", type=int, default=512, help="entries a row (default %(default)s)")
    parser.add_argument("--device", default="auto", help="as for gcbs plan (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each N, of which the median (default 1)")
    parser.add_argument("--scratch", type=Path, help="folder for the data (default: a temporary one)")
    options = parser.parse_args(arguments)
    follow_thread_limit()
    backend = choose_backend(options.device)
    options.device = backend.name
    rate = len(backend.devices) * product_rate(options.dim, backend.devices[0])
    rows_to_time = options.rows or (CPU_ROWS if options.device == "cpu" else GPU_ROWS)
    kind = "float32" if options.device == "cpu" else "bfloat16"
    print(f"{machine()}; d={options.dim}, {options.per_row} entries a row, {options.device}")
    print(f"Bare {kind} product: {rate / 1e9:,.0f} GF/s; the floor is 2·N²·d at that rate\n", flush=True)
    lines, whole = [], []
    for rows in rows_to_time:
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            times = time_plan(Path(folder), rows, options)
        floor = 2.0 * rows * rows * options.dim / rate
        whole.append(times["whole"])
        lines.append(
            [
                f"{rows:,}",
                f"{times['whole']:.2f}",
                *(f"{times.get(step, 0.0):.2f}" for step in STEPS),
                f"{floor:.2f}",
                f"{times['whole'] / floor:.1f}",
                f"{PAPER_SECONDS[rows]:,.1f}" if rows in PAPER_SECONDS else "–",
                f"{PAPER_SECONDS[rows] / times['whole']:.0f}×" if rows in PAPER_SECONDS else "–",
            ]
        )
    header = ["N", "whole process, s", *STEPS, "floor, s", "process / floor", "paper (A40), s", "paper / gcbs"]
    print(markdown_table(header, lines))
    if len(rows_to_time) > 1:
        exponent = np.polyfit(np.log(rows_to_time), np.log(whole), 1)[0]
        print(f"\nTime grows as N^{exponent:.2f}")


if __name__ == "__main__":
    main()
