"""Many plans in a row: memory, open files and temporary files must not grow.

    python benchmarks/soak.py                 200 through the Python API, 50 through the command line

Prints what it saw after each fifth of the plans and exits with 1 when something grew.
"""

import argparse
import gc
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
ROWS, DIM = 2000, 64
WARM_SHARE = 5
"""The first fifth is left out: libraries fill their caches there."""
ALLOWED_GROWTH = 16 * 2**20


def resident() -> int:
    """Bytes of memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def open_files() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))


def pairs(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two sides of related rows."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, DIM)).astype(np.float32)
    return x, x + rng.normal(size=x.shape).astype(np.float32)


def through_the_api(plans: int, folder: Path) -> bool:
    """Plan, save, report and check again and again in this process; whether nothing grew."""
    from typer.testing import CliRunner

    from gcbs_cli import plan, report
    from gcbs_cli.cli.app import app

    x, y = pairs(0)
    for side, values in (("x", x), ("y", y)):
        np.save(folder / f"{side}.npy", values)
    runner = CliRunner()
    marks: list[tuple[int, int, int, int]] = []
    step = max(1, plans // WARM_SHARE)
    for number in range(1, plans + 1):
        result = plan(x, y, batch_size=32, seed=number)
        if number % 4 == 0:
            report(x, y, result.perm, batch_size=32, trials=2)
        command = ["plan", str(folder / "x.npy"), str(folder / "y.npy"), "-o", str(folder / "perm.npy"), "-q", "-f"]
        if number % 4 == 1 and runner.invoke(app, command).exit_code != 0:
            return False
        if number % step == 0:
            gc.collect()
            marks.append((number, resident(), open_files(), len(os.listdir(folder))))
            print(f"api: {number:4} plans: {marks[-1][1] / 2**20:.1f} MiB, {marks[-1][2]} open, {marks[-1][3]} files")
    first, last = marks[0], marks[-1]
    return last[1] - first[1] < ALLOWED_GROWTH and last[2:] == first[2:]


def through_the_command_line(plans: int, folder: Path) -> bool:
    """Plan in processes of their own; whether their peaks stay and no file is left."""
    peaks, before = [], set(os.listdir(tempfile.gettempdir()))
    names = {"x.npy", "y.npy", "perm.npy", "perm.npy.manifest.json"}
    for _ in range(plans):
        command = [sys.executable, "-m", "gcbs_cli", "plan", "x.npy", "y.npy", "-o", "perm.npy", "-q", "--force"]
        process = subprocess.Popen(command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            return False
        peaks.append(usage.ru_maxrss / 1024)
    left = set(os.listdir(folder)) - names
    temporary = {name for name in set(os.listdir(tempfile.gettempdir())) - before if "gcbs" in name}
    rest = left | temporary or "nothing"
    print(f"command line: {plans} plans: peak {min(peaks):.0f} to {max(peaks):.0f} MiB; left: {rest}")
    return not left and not temporary and max(peaks) - min(peaks) < 64


def main() -> int:
    """Run both. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--api", type=int, default=200)
    parser.add_argument("--command-line", type=int, default=50)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        good = through_the_api(asked.api, Path(folder))
        good &= through_the_command_line(asked.command_line, Path(folder))
    print("nothing grew" if good else "something grew or failed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
