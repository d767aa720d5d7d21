"""Plan, report and check again and again over changing data: memory, open files and temporary files must not grow, and
the same input gives the same bytes.

    python benchmarks/soak.py            300 cycles by the Python API and by the command line in one process, and 8 by
                                         commands in processes of their own

Prints what it saw after each fifth of the cycles and exits with 1 when something grew, differed or failed.
"""

import argparse
import gc
import hashlib
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
DATA_SETS = 7
"""Of other sizes; cycle n has the n-th of them, and what comes again must be planned alike."""
MARKS = 5
ALLOWED_GROWTH = 32 * 2**20
COMMANDS = (
    "plan x.npy y.npy -k 32 -o perm.npy -q --force",
    "report x.npy y.npy -k 32 -p perm.npy -o report.json --trials 2 -q --force",
    "check -p perm.npy x.npy y.npy -q",
)
OPTIONS = ("", "--graph top-m --refine", "--fn-margin 0.95 --refine", "--partitions 2", "--method random")
"""Of the plans, in turn with the data sets."""


def resident() -> int:
    """Bytes of memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def open_files() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))


def pairs(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Two sides of related rows, of the data set of a cycle."""
    rng = np.random.default_rng(number)
    x = rng.normal(size=(500 + 100 * number, 32)).astype(np.float32)
    return x, x + rng.normal(size=x.shape).astype(np.float32)


def command_lines(number: int) -> list[list[str]]:
    """A cycle's commands, for which it writes x.npy and y.npy."""
    for side, values in zip("xy", pairs(number % DATA_SETS), strict=True):
        np.save(f"{side}.npy", values)
    plan, *others = (line.split() for line in COMMANDS)
    return [[*plan, *OPTIONS[number % len(OPTIONS)].split()], *others]


def by_api(number: int) -> bytes:
    """A cycle of plan and report on arrays, with a look at the plan."""
    from gcbs_cli import plan, report

    x, y = pairs(number % DATA_SETS)
    words = [option.split() for option in OPTIONS[number % len(OPTIONS)].split("--")[1:]]
    settings: dict[str, Any] = {word[0].replace("-", "_"): word[1] if word[1:] else True for word in words}
    perm = plan(x, y, batch_size=32, **settings).perm
    if not np.array_equal(np.sort(perm), np.arange(len(x))) or report(x, y, perm, batch_size=32, trials=2).n != len(x):
        raise AssertionError(f"cycle {number}")
    return perm.tobytes()


def in_this_process(number: int) -> bytes:
    """A cycle of the command line, without starting processes."""
    from typer.testing import CliRunner

    from gcbs_cli.cli.app import app

    for words in command_lines(number):
        ended = CliRunner().invoke(app, words)
        if ended.exit_code:
            raise AssertionError(f"cycle {number}: {words}: {ended.output}")
    return np.load("perm.npy").tobytes()


def in_processes(number: int) -> bytes:
    """The same with a process for each command."""
    for words in command_lines(number):
        subprocess.run(
            [sys.executable, "-m", "gcbs_cli", *words], check=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
        )
    return np.load("perm.npy").tobytes()


def soak(name: str, cycle: Callable[[int], bytes], cycles: int, plans: dict[tuple[int, int], str]) -> bool:
    """Whether nothing grew from the first fifth on, in which libraries fill their caches, and nothing was left.

    plans: by data set and options the hash of the plan, whichever way made it first.
    """
    temporary = set(os.listdir(tempfile.gettempdir()))
    marks: list[tuple[int, int, int]] = []
    for number in range(cycles):
        found = hashlib.sha256(cycle(number)).hexdigest()
        if plans.setdefault((number % DATA_SETS, number % len(OPTIONS)), found) != found:
            print(f"{name}: cycle {number}: another plan of the same input")
            return False
        if (number + 1) % max(1, cycles // MARKS) == 0:
            gc.collect()
            marks.append((resident(), open_files(), len(os.listdir())))
            size, opened, files = marks[-1]
            print(f"{name}: {number + 1} cycles: {size / 2**20:.1f} MiB, {opened} open, {files} files", flush=True)
    left = {other for other in set(os.listdir(tempfile.gettempdir())) - temporary if "gcbs" in other}
    print(f"{name}: left in the temporary folder: {left or 'nothing'}", flush=True)
    first, last = marks[0], marks[-1]
    return last[0] - first[0] < ALLOWED_GROWTH and last[1:] == first[1:] and not left


def main() -> int:
    """Run all. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=300)
    parser.add_argument("--processes", type=int, default=8, help="cycles with a process for each command")
    asked = parser.parse_args()
    plans: dict[tuple[int, int], str] = {}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as temporary:
        os.chdir(folder)
        os.environ["TMPDIR"] = tempfile.tempdir = temporary  # where no other program leaves anything
        for number in range(len(OPTIONS)):
            by_api(number)  # compiles the loops of each
        good = soak("API", by_api, asked.cycles, plans)
        good &= soak("command line", in_this_process, asked.cycles, plans)
        good &= soak("processes", in_processes, asked.processes, plans)
        print(f"{len(plans)} inputs, each with one plan whichever way it was made: {good}")
        os.chdir(ROOT)
    print("nothing grew" if good else "something grew, differed or failed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
