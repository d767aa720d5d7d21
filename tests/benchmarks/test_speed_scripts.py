"""The speed benchmarks run and print their tables; what they time is not looked at."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from compare_tools import paper_pseudo_code
from measuring import read_data

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SAMPLE = BENCHMARKS.parent / "sample_data"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"compare_tools.py {SAMPLE} --rounds 1 --only imports pseudo", ["GCBS's pseudo-code", "gcbs"]),
        ("scaling.py --rows 200 500 --dim 8 --per-row 20 --device cpu", ["| 200 ", "| 500 ", "Time grows as N^"]),
        (f"refinement.py {SAMPLE} --methods rcm -k 16 --threads 1 2 --rounds 1", ["| rcm | 2 "]),
        (f"ablations.py quantile {SAMPLE} --values 0.99 0.999", ["| 0.99 |", "| 0.999 |"]),
        (f"ablations.py batch-size {SAMPLE} --values 16 64", ["| 16 |", "| 64 |"]),
        (f"ablations.py rows {SAMPLE} --values 500 1500 --plan refine=true graph=top-m", ["| 500 |", "| 1,500 |"]),
        (f"intervals.py {SAMPLE} --seeds 2 --batches 30 -k 16 --trials 5", ["| 16 | 30 |"]),
        ("soak.py --cycles 3 --processes 1", ["nothing grew"]),
        ("memory.py --part 5 report mine", ["0 points off"]),
        ("fuzz.py --target npy --target manifest --tries 160", ["160 tries", ", 0 failed"]),
        ("mutants.py --folder plan_file --count 2 --lines mutants.jsonl", ["| plan_file | 2 |"]),
    ],
    ids=lambda value: value.split()[0] if isinstance(value, str) else "",
)
def test_a_script_prints_its_table(script: str, said: list[str], tmp_path: Path) -> None:
    name, *arguments = script.split()
    command = [sys.executable, str(BENCHMARKS / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in said:
        assert words in done.stdout


def test_the_pseudo_code_orders_all_rows() -> None:
    pair = read_data(SAMPLE)
    assert np.array_equal(np.sort(paper_pseudo_code(pair)), np.arange(pair.rows))
