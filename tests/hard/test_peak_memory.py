"""The memory that commands take: refused at 1 MiB, they name a limit, which must be enough and not far too much.

Each command runs in a process of its own, first on a few rows, which loads its libraries, then on its data.
"""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running import run_python

LEAST_SHARE = 0.25
"""Of the limit: one that a command says it needs and does not come near turns work away that would fit."""
COUNTS_FROM = 256 << 20
"""Less than this is not held to that share: scratch and libraries count for more there than rows."""
PLAN, REPORT, MINE = "plan x.npy y.npy -o p.npy", "report x.npy y.npy -o r.json", "mine x.npy y.npy -o m.parquet"
COMPARE = "compare x.npy y.npy"
SAMPLED = "report x.npy y.npy -p perm.npy -o r.json"
POINTS = [
    ("related", 30_000, 384, PLAN),
    ("related", 60_000, 32, f"{PLAN} --per-row 400"),
    ("hubs", 30_000, 64, f"{PLAN} --per-row 200 --refine"),
    ("clusters", 16_000, 64, f"{PLAN} --method metis --per-row 200"),
    ("related", 24_000, 64, f"{PLAN} --quantile 0.99"),
    ("hubs", 24_000, 64, f"{PLAN} --preset train"),
    ("equal", 16_000, 64, f"{PLAN} --preset train"),
    ("clusters", 16_000, 64, f"{PLAN} --graph top-m --top 64 --refine --report r.json"),
    ("hubs", 24_000, 64, f"{PLAN} --rank-window 30:100"),
    ("related", 40_000, 128, f"{PLAN} --partitions 4"),
    ("related", 30_000, 384, f"{PLAN} --partitions 3 --groups groups.npy"),
    ("hubs", 60_000, 64, f"{PLAN} --partitions 6 --per-row 100 --refine"),
    ("related", 100_000, 64, f"{SAMPLED} --rows 20000"),
    ("hubs", 60_000, 384, f"{SAMPLED} --rows 30000 --loss infonce"),
    ("related", 30_000, 384, REPORT),
    ("related", 24_000, 32, f"{REPORT} --per-row 400"),
    ("hubs", 24_000, 64, f"{REPORT} --loss symmetric --loss simclr"),
    ("clusters", 20_000, 64, f"{REPORT} --fn-margin 0.5"),
    ("related", 24_000, 64, f"{REPORT} -t 0.02 -t 0.05 -t 0.1 -k 16 -k 64 -k 1024"),
    ("hubs", 20_000, 64, f"{REPORT} --loss bsc --loss triplet --trials 2"),
    ("equal", 5_000, 64, f"{REPORT} --trials 2"),
    ("related", 30_000, 384, MINE),
    ("related", 20_000, 64, f"{MINE} -l 2000"),
    ("clusters", 30_000, 64, f"{MINE} -l 16 --max-score 0.9"),
    ("equal", 20_000, 64, f"{MINE} -l 20"),
    ("related", 24_000, 384, COMPARE),
    ("hubs", 24_000, 64, f"{COMPARE} --methods rcm+refine,train"),
    ("related", 20_000, 384, f"{COMPARE} --train --budget 20"),
    ("clusters", 12_000, 128, f"{COMPARE} --train --around --budget 20"),
]
"""The kind of the data, rows, columns and the command."""
APPLIED = [("jsonl", 1_000_000, "128M"), ("parquet", 1_000_000, "256M")]
"""The kind of the file, rows and --max-memory of apply, which sets how many rows it holds at once."""
BYTES_BESIDE = 60
"""What apply takes for a row of the data beside them, as docs/trainers.md says."""
MEASURED = """
import json, re, sys
from pathlib import Path
from typer.testing import CliRunner
from gcbs_cli.cli.app import app

def status(name):
    return 1024 * int(re.search(rf"{name}:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def run(folder, *words):
    import os
    os.chdir(folder)
    return CliRunner().invoke(app, [*line.split(), *words])

line = sys.argv[1]
run("few")
refused = run("../many", "--max-memory", "1M") if sys.argv[2] == "name it" else None
fits = re.search(r"--max-memory (\\d+)M would fit", refused.stderr)[1] + "M" if refused else sys.argv[2]
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
before = status("VmRSS")
ended = run("../many", "--max-memory", fits)
peak = status("VmHWM") - before
print(json.dumps({"limit": int(fits[:-1]) << 20, "peak": peak, "code": ended.exit_code, "stderr": ended.stderr}))
"""


def make_sides(kind, rows, dim):
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


def make_table(kind, rows):
    if kind == "npy":
        np.save("data.npy", np.random.default_rng(0).random((rows, 32), np.float32))
        return
    texts = [f"{row:09},{'text of the row ' * (row % 12)}" for row in range(rows)]
    if kind == "parquet":
        pq.write_table(pa.table({"row": range(rows), "text": texts}), "data.parquet")
    else:
        Path("data.jsonl").write_text("".join(f'{{"row": "{text}"}}\n' for text in texts))


def peak_of(place, rows, make, line, limit="name it"):
    """What MEASURED prints of a command, on data that `make` writes for a number of rows."""
    for name, count in (("few", 2_500), ("many", rows)):
        (place / name).mkdir()
        os.chdir(place / name)
        np.save("perm.npy", np.random.default_rng(1).permutation(count))
        np.save("groups.npy", np.arange(count) // 3)
        make(count)
    os.chdir(place)
    result = json.loads(run_python(MEASURED, f"{line} -q", limit))
    print(f"{line}, {rows:,} rows: {result['peak'] / 2**20:.0f} of {result['limit'] / 2**20:.0f} MiB")
    assert result["code"] == 0, result["stderr"]
    return result["peak"], result["limit"]


@pytest.mark.parametrize(("kind", "rows", "dim", "line"), POINTS, ids=lambda value: str(value).partition(" -o ")[0])
def test_what_a_command_says_that_it_needs_is_enough_and_not_far_too_much(place, kind, rows, dim, line):
    def make(count):
        for side, values in zip("xy", make_sides(kind, count, dim), strict=True):
            np.save(f"{side}.npy", values)

    peak, limit = peak_of(place, rows, make, line)
    assert peak <= limit
    assert limit < COUNTS_FROM or peak >= LEAST_SHARE * limit


@pytest.mark.parametrize(("kind", "rows", "limit"), APPLIED, ids=lambda value: str(value))
def test_apply_keeps_to_its_limit(place, kind, rows, limit):
    line = f"apply data.{kind} -p perm.npy -o out.{kind}"
    peak, limit = peak_of(place, rows, lambda count: make_table(kind, count), line, limit)
    assert peak <= limit + BYTES_BESIDE * rows
