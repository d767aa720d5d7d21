"""What does not fit is refused before any work: exit code 2, one line that names it, and no file."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Gcbs, check_refused

REFUSED = {
    "pln": "pln: no such command; did you mean plan?",
    "plan x.npy --batchsize 3": "--batchsize: no such option; did you mean --batch-size?",
    "plan x.npy y.npy z.npy": "extra argument(s) (z.npy); gcbs plan --help",
    "check --json": "--perm: is missing; give it",
    "plan x.npy --method metsi": "did you mean metis?",
    "report x.npy --loss infonc": "did you mean infonce?",
    "plan x.npy --groups-column g": "--groups-column has no effect without --groups",
    "plan x.npy --work-dir w": "--work-dir has no effect without --partitions",
    "plan x.npy --time-limit 5": "--time-limit has no effect without --refine",
    "plan x.npy --partitions 2 --address here": "--address has no effect without --engine ray",
    "plan x.npy y.npy --method words": "--method words: expected the rows' texts",
    "plan x.npy y.npy --text t.txt": "--text has no effect without --method words",
    "plan x.npy y.npy --method words --text none.txt": "none.txt: file not found",
    "plan x.npy y.npy --method words --text short.txt": "short.txt: has 2 rows, the embeddings 300",
    "plan x.npy y.npy --method words --text x.npy": "--text x.npy",
    "plan x.npy y.npy --method knn-groups --bsc-clusters 3": "--bsc-clusters has no effect without --method clusters",
    "plan x.npy y.npy -k 16 --world-size 19": "18 full batches of 16, fewer than one for each rank",
    "plan x.npy y.npy -k 16 --groups t.txt": "one group has 300 rows, and there are 19 batches of 16",
    "plan x.npy y.npy --refine --top 8": "--top has no effect without --graph top-m",
    "plan x.npy y.npy --fn-margin 0.9 --fn-weight 0.2": "--fn-weight has no effect without --refine",
    "plan x.npy y.npy --temperature 20": "--temperature 20: did you mean 0.05, which is a scale of 20?",
    "report x.npy y.npy --queue-mode moco": "--queue-mode has no effect without --queue",
    "report x.npy y.npy --id-column id": "--id-column has no effect without --html",
    "doctor --dim 5": "--dim has no effect without --rows",
    "plan x.npy y.npy --fn-weight 1e9": "--fn-weight 1e9: expected at least 0 and at most 1000",
    "plan x.npy y.npy -k 301": "--batch-size 301: expected between 2 and the 300 rows",
    "plan x.npy y.npy --per-row 300": "--per-row 300: expected fewer than the 300 rows",
    "plan x.npy y.npy --max-memory 1K": "--max-memory 1.0 KiB",
    "plan x.npy y.npy --device tpu": "--device tpu",
    "plan x.npy y.npy --device cuda:99": "--device cuda:99",
    "plan x.npy y.npy --device cuda:0,99": "--device cuda:0,99: PyTorch sees",
    "plan x.npy y.npy --device cuda:0,0": "--device cuda:0,0: names cuda:0 twice",
    "plan x.npy y.npy --device cuda:": "expected auto, cpu, cuda, cuda:INDEX, cuda:0,1,... or cuda:all",
    "plan x.npy y.npy -o perm.csv": "perm.csv",
    "plan x.npy y.npy -o none/perm.npy": "none",
    "plan x.npy y.npy -o .": ".",
    "plan x.npy y.npy -o - --json": "--json with -o -",
    "plan x.npy y.npy --report none/report.json": "none",
    "plan x.npy y.npy -o here.npy": "here.npy: exists; use --force to replace it",
    "report x.npy y.npy -o here.json": "here.json: exists; use --force to replace it",
    "report x.npy y.npy --trials 10001": "--trials 10001: expected at least 1 and at most 10000",
    "report x.npy y.npy -p none.npy": "none.npy: file not found",
    "report x.npy y.npy --positives short.txt": "short.txt: has 2 rows",
    "report x.npy y.npy --loss bsc --labels t.txt": "row 0 is same, expected 1 or 0",
    "report x.npy y.npy --positives t.txt --loss simclr": "--positives has no effect without --loss bsc",
    "report x.npy y.npy --loss bsc --queue 2": "--queue has no effect without --loss infonce, symmetric",
    "report x.npy y.npy --loss bsc --html r.html": "--html: goes with --loss infonce",
    "report x.npy y.npy --rows 100": "name the plan with -p",
    "report x.npy y.npy --rows 100 -p here.npy -k 16": "expected at least 480, 30 batches of 16",
    "report x.npy y.npy --rows 480 -p here.npy -k 16": "300 rows are few",
    "report x.npy y.npy --rows 100 -p here.npy --html r.html": "--html: needs all pairs",
    "report x.npy y.npy --rows 100 -p here.npy --quantile 0.99": "--quantile: needs all pairs",
    "report x.npy y.npy --rows 100 -p here.npy --loss simclr": "--loss infonce and symmetric",
    "report x.npy y.npy --rows 100 -p here.npy -k 16 -k 32": "at a time",
    "mine x.npy y.npy -o n.npz": "--output n.npz: expected .parquet",
    "mine x.npy y.npy -l 300": "--negatives 300",
    "mine x.npy y.npy --range-max 2": "--range-max 2",
    "mine x.npy y.npy --min-score 0.5 --max-score 0.1": "--min-score 0.5",
    "mine x.npy y.npy -o - --json": "--json with -o -",
    "compare x.npy y.npy --methods rmc": "rmc",
    "compare x.npy y.npy --methods words": "--method words: expected the rows' texts",
    "compare x.npy y.npy --methods rcm --text t.txt": "--text has no effect without --method words",
    "compare x.npy y.npy --methods rcm,cm --bsc-by x": "--bsc-by has no effect without --method knn-groups, clusters",
    "compare x.npy y.npy --budget 2m": "--budget has no effect without --train",
    "compare x.npy y.npy -k 128 --train": "300 rows leave 210 to train on, expected at least two batches of 128",
    "tune x.npy y.npy --budget soon": "--budget soon: expected a time",
    "embed none.csv -m model": "none.csv: file not found",
    "embed pairs.csv -m model --x-text q --y-text answer": "--x-text",
    "embed t.txt -m model": "t.txt: expected .parquet",
    "embed pairs.csv -m model": "--model model: found no such folder",
    "embed pairs.csv -m model -o x.npz": "--output x.npz",
    "embed pairs.csv -m model --y-text empty": "pairs.csv:empty: found 2 rows without a text",
}


@pytest.mark.parametrize("command", REFUSED)
def test_what_does_not_fit_is_refused(gcbs: Gcbs, folder: Path, command: str) -> None:
    if "99" in command:  # PyTorch says which GPUs there are
        pytest.importorskip("torch")
    Path("t.txt").write_text("same\n" * 300)
    Path("short.txt").write_text("one\ntwo\n")
    Path("pairs.csv").write_text("x,y,empty\na,b,\nc,d,\n")
    np.save("here.npy", np.arange(300))
    for name in ("here.json", "here.csv"):
        Path(name).write_text("mine")
    check_refused(gcbs, command.split(), REFUSED[command])


@pytest.mark.parametrize("command", ["compare", "tune"])
def test_a_refusal_for_memory_names_only_options_that_the_command_has(gcbs: Gcbs, folder: Path, command: str) -> None:
    result = gcbs(command, "x.npy", "y.npy", "--max-memory", "1K")
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.endswith(" would fit, or use fewer rows\n")
