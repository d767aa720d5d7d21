"""The memory that commands take, beside what they say they will before the work.

    python benchmarks/memory.py                         ten points for each command, the largest of some gigabytes
    python benchmarks/memory.py plan report --part 9    some commands, on a ninth of the rows

Each point is a process of its own: the command runs once on a few rows, which loads its libraries, then on its data.
Prints a JSON line a point: the largest forecast (of apply: its limit), and the peak beyond what was there before.
Exits with 1 where a peak lies above its forecast or, from 256 MiB on, below half of it.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
COUNTS_FROM = 256 << 20
"""Less than this is not held to half of its forecast: scratch and libraries count for more there than rows."""
PLAN, REPORT, MINE = "plan x.npy y.npy -o p.npy", "report x.npy y.npy -o r.json", "mine x.npy y.npy -o m.parquet"
COMPARE, TUNE = "compare x.npy y.npy", "tune x.npy y.npy --budget 20s"
SAMPLED = "report x.npy y.npy -p perm.npy -k 64 -o r.json"
POINTS: dict[str, list[tuple[str, int, int, str]]] = {
    "plan": [
        ("related", 30_000, 384, PLAN),
        ("related", 24_000, 32, f"{PLAN} --per-row 400"),
        ("related", 60_000, 32, f"{PLAN} --per-row 900"),
        ("hubs", 30_000, 64, f"{PLAN} --per-row 200 --refine"),
        ("clusters", 16_000, 64, f"{PLAN} --method metis --per-row 200"),
        ("related", 16_000, 64, f"{PLAN} --method metis --per-row 200 --refine"),
        ("hubs", 24_000, 64, f"{PLAN} --preset train"),
        ("equal", 16_000, 64, f"{PLAN} --preset train"),
        ("clusters", 16_000, 64, f"{PLAN} --graph top-m --top 64 --refine --report r.json"),
        ("hubs", 24_000, 64, f"{PLAN} --rank-window 30:100"),
    ],
    "parts": [
        ("related", 10_000, 64, f"{PLAN} --partitions 2"),
        ("related", 40_000, 128, f"{PLAN} --partitions 4"),
        ("related", 30_000, 384, f"{PLAN} --partitions 3 --groups groups.npy"),
        ("clusters", 100_000, 64, f"{PLAN} --partitions 8"),
        ("related", 100_000, 128, f"{PLAN} --partitions 2 --per-row 100"),
        ("hubs", 60_000, 64, f"{PLAN} --partitions 6 --per-row 100 --refine"),
        ("related", 60_000, 384, f"{PLAN} --partitions 6 --groups groups.npy --preset train"),
        ("related", 100_000, 768, f"{PLAN} --partitions 20"),
        ("related", 100_000, 32, f"{PLAN} --partitions 100 --groups groups.npy"),
        ("hubs", 60_000, 384, f"{PLAN} --partitions auto"),
        ("equal", 20_000, 64, f"{PLAN} --partitions 4"),
        ("related", 400_000, 32, f"{PLAN} --partitions 40 --groups groups.npy"),
    ],
    "rows": [
        ("related", 30_000, 384, f"{SAMPLED} --rows 4000"),
        ("related", 100_000, 64, f"{SAMPLED} --rows 20000"),
        ("hubs", 60_000, 384, f"{SAMPLED} --rows 30000 --loss infonce"),
        ("related", 200_000, 128, f"{SAMPLED} --rows 2000"),
        ("related", 1_000_000, 16, f"{SAMPLED} --rows 4000"),
    ],
    "report": [
        ("related", 30_000, 384, REPORT),
        ("related", 24_000, 32, f"{REPORT} --per-row 400"),
        ("related", 60_000, 32, f"{REPORT} --per-row 900 --trials 2"),
        ("hubs", 24_000, 64, f"{REPORT} --per-row 100 --loss symmetric --loss simclr"),
        ("clusters", 20_000, 64, f"{REPORT} --per-row 100 --fn-margin 0.5"),
        ("related", 24_000, 384, f"{REPORT} --batch-coordinates l2"),
        ("related", 24_000, 64, f"{REPORT} -t 0.02 -t 0.05 -t 0.1 -k 16 -k 64 -k 1024"),
        ("hubs", 20_000, 64, f"{REPORT} --loss bsc --loss triplet --trials 2"),
        ("equal", 5_000, 64, f"{REPORT} --trials 2"),
        ("related", 30_000, 64, REPORT),
    ],
    "mine": [
        ("related", 30_000, 384, MINE),
        ("related", 30_000, 64, f"{MINE} -l 100"),
        ("related", 20_000, 64, f"{MINE} -l 2000"),
        ("hubs", 30_000, 64, f"{MINE} -l 50 --relative-margin 0.05"),
        ("clusters", 30_000, 64, f"{MINE} -l 16 --max-score 0.9"),
        ("equal", 20_000, 64, f"{MINE} -l 20"),
        ("hubs", 30_000, 64, f"{MINE} --range-max 1000 --sampling random -l 10"),
        ("clusters", 60_000, 32, f"{MINE} -l 300"),
        ("related", 10_000, 768, f"{MINE} -l 500"),
        ("related", 30_000, 64, f"{MINE} --range-min 200 -l 8"),
    ],
    "apply": [
        (kind, rows, 0, f"apply perm.npy data.{kind} -o out.{kind} --max-memory {size}")
        for rows, size in ((400_000, "64M"), (1_000_000, "128M"), (4_000_000, "512M"))
        for kind in ("jsonl", "parquet", "npy")
    ]
    + [("csv", 1_000_000, 0, "apply perm.npy data.csv -o out.csv --max-memory 256M")],
    "compare": [
        ("related", 24_000, 384, COMPARE),
        ("related", 30_000, 64, f"{COMPARE} --methods rcm,random"),
        ("related", 24_000, 64, f"{COMPARE} --methods rcm,metis+refine --per-row 200"),
        ("hubs", 24_000, 64, f"{COMPARE} --methods rcm+refine,train"),
        ("clusters", 24_000, 64, f"{COMPARE} --methods metis,knn-groups --graph top-m"),
        ("equal", 5_000, 64, COMPARE),
        ("hubs", 20_000, 64, f"{COMPARE} --per-row 100 -k 256"),
        ("related", 40_000, 32, f"{COMPARE} --methods rcm,random --per-row 400"),
        ("related", 20_000, 384, f"{COMPARE} --train --budget 20s"),
        ("clusters", 20_000, 64, f"{COMPARE} --train --budget 20s --methods random,rcm"),
    ],
    "tune": [
        ("related", 20_000, 384, TUNE),
        ("related", 20_000, 64, TUNE),
        ("hubs", 24_000, 64, TUNE),
        ("clusters", 12_000, 128, TUNE),
        ("related", 12_000, 64, f"{TUNE} -k 256"),
        ("hubs", 12_000, 384, f"{TUNE} --per-row 100"),
        ("related", 6_000, 768, TUNE),
        ("clusters", 20_000, 32, f"{TUNE} --per-row 200"),
        ("related", 40_000, 64, TUNE),
        ("hubs", 40_000, 32, f"{TUNE} -k 16"),
    ],
}
"""For each command the kind of the data, its rows and width, and the words."""


def pairs(kind: str, rows: int, dim: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Two sides: related; all rows equal; in clusters of 200 near duplicates; a hundredth of the keys near all rows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, dim), np.float32)
    if kind == "equal":
        x[:] = x[0]
        return x, x
    if kind == "clusters":
        x = np.repeat(x[: -(-rows // 200)], 200, axis=0)[:rows] + 0.05 * x
    noise = rng.standard_normal((rows, dim), np.float32)
    if kind == "hubs":
        x[:, 0] += 0.3 * dim**0.5
        noise[::100] = -x[::100] / 0.7
        noise[::100, 0] += dim**0.5
    return x, x + 0.7 * noise


def make_data(kind: str, rows: int, dim: int) -> None:
    """x.npy and y.npy with groups.npy, or the table that apply reorders, and perm.npy."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    np.save("perm.npy", np.random.default_rng(1).permutation(rows))
    np.save("groups.npy", np.arange(rows) // 3)
    if dim:
        for side, values in zip("xy", pairs(kind, rows, dim), strict=True):
            np.save(f"{side}.npy", values)
    elif kind == "npy":
        np.save("data.npy", np.random.default_rng(0).random((rows, 32), np.float32))
    else:
        lines = [f"{row:09},{'text of the row ' * (row % 12)}" for row in range(rows)]
        if kind == "parquet":
            pq.write_table(pa.table({"row": range(rows), "text": lines}), "data.parquet")
        else:
            form = '{{"row": "{}"}}\n'.format if kind == "jsonl" else "{}\n".format
            Path(f"data.{kind}").write_text("row,text\n" * (kind == "csv") + "".join(map(form, lines)))


def run_point(kind: str, rows: int, dim: int, words: str) -> dict[str, Any]:
    """Forecast and peak of a command in this process, in an empty folder."""
    from typer.testing import CliRunner

    from gcbs_cli.cli.app import app
    from gcbs_cli.mining import run as mining
    from gcbs_cli.planning import plan as planning
    from gcbs_cli.planning.parts import plan as parts
    from gcbs_cli.reports import basis, sampled

    said: list[int] = []
    for user in (planning, parts, basis, sampled, mining):
        check = vars(user)["check_room"]

        def heard(*given: Any, check: Any = check, **named: Any) -> Any:
            expected = given[1]
            taken = status("VmRSS") - before - expected.taken  # by passes before this one
            said.append(expected.memory + max(0, taken))
            return check(*given, **named)

        vars(user)["check_room"] = heard
    before, codes = 0, []
    for count in (min(rows, 600), rows):
        make = [sys.executable, __file__, "--make", json.dumps([kind, count, dim])]
        subprocess.run(make, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
        said.clear()
        Path("/proc/self/clear_refs").write_text("5")
        before = status("VmHWM")
        small = re.sub(r"(--per-row|-l|--range-max|--range-min|-k) [0-9,]+", r"\1 8", words)
        small = re.sub("--partitions [0-9]+", "--partitions 2", re.sub("--rows [0-9]+", "--rows 300", small))
        small = re.sub("--range-m(ax|in) 8|--budget [0-9]+s", "", small) + " --budget 1s" * ("--budget" in words)
        asked = [*(words if count == rows else small).split(), "-q", *["--force"] * (" -o " in words)]
        ended = CliRunner().invoke(app, asked)
        codes.append(ended.exit_code)
    taken = status("VmHWM") - before
    limit = re.search(r"--max-memory (\d+)M", words)
    forecast = max(said, default=int(limit[1]) << 20 if limit else 0)
    point = {"data": kind, "rows": rows, "dim": dim, "command": words, "forecast": forecast, "peak": taken}
    return point | {"share": round(taken / max(forecast, 1), 3), "codes": codes, "said": ended.stderr.strip()[-200:]}


def status(name: str) -> int:
    """Bytes of this process: VmRSS, what it holds now; VmHWM, the most that it has held since that was cleared."""
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


def main() -> int:
    """Run the points. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=", ".join(POINTS))
    parser.add_argument("--part", type=int, default=1, help="divide the numbers of rows by this")
    parser.add_argument("--point", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--make", type=json.loads, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.make:
        make_data(*asked.make)
        return 0
    if asked.point:
        print(json.dumps(run_point(*asked.point)))
        return 0
    wrong = 0
    for command in asked.commands or POINTS:
        for kind, rows, dim, words in POINTS[command]:
            point = [kind, max(600, rows // asked.part), dim, words]
            call = [sys.executable, str(Path(__file__).resolve()), "--point", json.dumps(point)]
            with tempfile.TemporaryDirectory() as folder:
                environment = os.environ | {"PYTHONPATH": str(ROOT)}
                done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False, env=environment)
            print(done.stdout.strip() or f"WRONG {words}: {done.returncode} {done.stderr[-300:]}", flush=True)
            found = json.loads(done.stdout or '{"peak": 1, "forecast": 0}')
            above, counts = found["peak"] > found["forecast"], found["forecast"] >= COUNTS_FROM and command != "apply"
            wrong += above or (counts and 2 * found["peak"] < found["forecast"]) or any(found["codes"])
    print(f"{wrong} points off", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
