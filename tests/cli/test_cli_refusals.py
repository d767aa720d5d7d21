"""What does not fit is refused before any work: exit code 2, one line that names it, and no file."""

import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running import SAMPLE, run_bash, run_gcbs

from tests.cli.conftest import check_refused

REFUSED = {
    "pln": "No such command 'pln'. Did you mean 'plan'; gcbs --help",
    "plan x.npy --batchsize 3": "No such option: --batchsize (Possible options: --batch-size",
    "plan x.npy y.npy z.npy": "extra argument(s) (z.npy); gcbs plan --help",
    "report x.npy --loss infonc": "expected 'infonce', 'symmetric'",
    "plan x.npy --groups-column g": "--groups-column has no effect without --groups",
    "plan x.npy --engine ray": "--engine has no effect without --partitions",
    "plan x.npy --partitions 2 --address here": "--address has no effect without --engine ray",
    "plan x.npy y.npy --method metis": 'pip install "gcbs[metis]"',
    "plan x.npy y.npy --method words": "--method words: expected the rows' texts",
    "plan x.npy y.npy --text t.txt": "--text has no effect without --method words",
    "plan x.npy y.npy --method words --text none.txt": "none.txt: file not found",
    "plan x.npy y.npy --method words --text short.txt": "short.txt: read 2 rows, expected 300",
    "plan x.npy y.npy --method words --text x.npy": "--text x.npy",
    "plan x.npy y.npy --method knn-groups --bsc-clusters 3": "--bsc-clusters has no effect without --method clusters",
    "plan x.npy y.npy -k 16 --world-size 19": "18 full batches of 16, fewer than one for each rank",
    "plan x.npy y.npy -k 16 --groups t.txt": "one group has 300 rows, and there are 19 batches of 16",
    "plan x.npy y.npy --refine --top 8": "--top has no effect without --graph top-m",
    "plan x.npy y.npy --temperature 20": "--temperature 20: did you mean 0.05, which is a scale of 20?",
    "plan x.npy": "give Y's file as the second argument",
    "plan x.npy nan.npy": "nan.npy: rows 5, 17 (2 in all, counted from 0)",
    "report nan.npy y.npy -o out.json": "nan.npy: rows 5, 17 (2 in all, counted from 0)",
    "check -p here.npy x.npy nan.npy": "nan.npy: rows 5, 17 (2 in all, counted from 0)",
    "plan one.npy one.npy": "one.npy: found 1 row, expected at least 2",
    "plan x.npy y.npy -k 2.5": "--batch-size 2.5: expected a whole number",
    "plan x.npy y.npy --quantile 1": "--quantile 1: expected less than 1",
    "plan x.npy y.npy --quantile 0.9 --per-row 3": "--quantile and --per-row: give only one",
    "plan x.npy y.npy --threshold 1.5": "--threshold 1.5: expected at most 1.1",
    "plan x.npy y.npy --fn-margin high": "--fn-margin high: expected a number",
    "plan x.npy y.npy --fn-margin nan": "--fn-margin nan: expected a finite number",
    "plan x.npy y.npy --rank-window 3": "--rank-window 3: expected P:M such as 30:100",
    "plan x.npy y.npy --rank-window 3:0": "--rank-window 0: expected P:M such as 30:100, to skip P ranks",
    f"plan x.npy y.npy --max-memory {'9' * 400}": "--max-memory 999",
    "plan x.npy y.npy --group-size 5": "--group-size 5: expected a divisor of --batch-size 64",
    "plan x.npy y.npy --world-size 3 --gather": "--batch-size 64: not divisible by --world-size 3",
    "plan x.npy y.npy --partitions 0": "--partitions 0: expected auto or a number from 1 to 4,096",
    "plan x.npy y.npy --partitions 5": "--partitions 5: the 300 rows make 4 batches of 64",
    "plan x.npy y.npy --partitions 4 --engine ray": 'pip install "gcbs[ray]"',
    "plan x.npy y.npy --partitions 4 --report r.json": "--report",
    "plan x.npy y.npy --partitions 4 --dry-run": "--dry-run",
    "doctor --dim 5": "--dim has no effect without --rows",
    "plan x.npy y.npy --fn-margin 3": "--fn-margin 3: expected at most 2",
    "plan x.npy y.npy -k 301": "--batch-size 301: expected 2 to 300",
    "plan x.npy y.npy --per-row 300": "--per-row 300: expected fewer than the 299 other rows",
    "plan x.npy y.npy --dry-run --max-memory 50K": "would fit, or lower --per-row",
    "plan x.npy y.npy --max-memory 0": "--max-memory 0 B: the plan would need about",
    "plan x.npy y.npy --dry-run --method random": "--dry-run: forecasts a graph, and --method random makes none",
    "plan x.npy y.npy --max-memory 50K": "would fit, or lower --per-row",
    "plan x.npy y.npy --partitions 2 --max-memory 1M": "M would fit, or use more --partitions",
    "compare x.npy y.npy --methods rcm --max-memory 1K": " would fit, or use fewer rows",
    "compare x.npy y.npy --train --max-memory 1K": " would fit, or use fewer rows",
    "mine x.npy y.npy --max-memory 1K": "use fewer --negatives",
    "plan x.npy y.npy --device tpu": "--device tpu",
    "plan x.npy y.npy --device cuda:99": "--device cuda:99",
    "plan x.npy y.npy -o none/perm.npy": "none does not exist",
    "plan x.npy y.npy -o x.npy/perm.npy": "x.npy does not exist, or is no writable folder",
    "plan x.npy y.npy -f -o folder.npy": "folder.npy: is a folder",
    "plan x.npy y.npy -f -o pipe.npy": "pipe.npy: is a folder, pipe or device",
    "plan x.npy y.npy -o a\0b.npy": "NUL",
    f"plan x.npy y.npy -o {'a' * 300}.npy": "name too long",
    "plan x.npy y.npy -f -o odd.npy": "odd.npy.manifest.json: is a folder",
    "check -p https://me:secret@host/p.npy?sign=secret": "https://host/p.npy?…: is an address that is not fetched",
    "embed https://host/t.csv?sign=secret -m model": "https://host/t.csv?…: is an address that is not fetched",
    "report x.npy y.npy --html s3://me:secret@host/r.html": "s3://host/r.html: is an address, to which nothing is",
    "check -p odd.npy": "odd.npy.manifest.json: cannot be opened (Is a directory)",
    "check -p here.npy --config none.toml": "none.toml",
    "check -p here.npy --config pyproject.toml": "pyproject.toml: found the unknown key 'project.name'",
    "plan x.npy y.npy -o - --json": "--json with -o -",
    "plan x.npy y.npy --report none/report.json": "none",
    "plan x.npy y.npy -o here.npy": "here.npy: exists; use --force to replace it",
    "plan x.npy y.npy -o lone.npy": "lone.npy.manifest.json: cannot be read as a gcbs manifest",
    "demo lone": "lone/perm.npy.manifest.json: cannot be read as a gcbs manifest",
    "report x.npy y.npy -o -": "only plan and mine write to stdout",
    "check here.npy": "--perm is missing; give it",
    "report x.npy y.npy -o here.json": "here.json: exists; use --force to replace it",
    "report x.npy y.npy --trials 10001": "--trials 10001: expected at most 10000",
    "report x.npy y.npy --loss bsc --labels t.txt": "row 0 is same, expected 1 or 0",
    "report x.npy y.npy --positives t.txt --loss simclr": "--positives has no effect without --loss bsc",
    "report x.npy y.npy --loss bsc --queue 2": "--queue has no effect without --loss infonce, symmetric",
    "report x.npy y.npy --loss bsc --html r.html": "--html: works only with --loss infonce",
    "report x.npy y.npy --rows 100": "--rows has no effect without --perm",
    "report x.npy y.npy --rows 100 -p here.npy -k 16": "--rows 100 of 300: expected at least 480, for 30 batches of 16",
    "report x.npy y.npy --rows 100 -p here.npy --html r.html": "--rows and --html: give only one",
    "report x.npy y.npy --rows 100 -p here.npy --quantile 0.99": "--rows and --quantile: give only one",
    "report x.npy y.npy --rows 100 -p here.npy --loss simclr": "--rows has no effect without --loss infonce, symmetric",
    "report x.npy y.npy --rows 100 -p here.npy -k 16 -k 32": "at a time",
    "mine x.npy y.npy -o n.npz": "--output n.npz: expected .parquet",
    "mine x.npy y.npy -l 300": "--negatives 300",
    "mine x.npy y.npy --range-max 2": "--range-max 2",
    "mine x.npy y.npy --min-score 0.5 --max-score 0.1": "--min-score 0.5",
    "mine x.npy y.npy -o - --json": "--json with -o -",
    "compare x.npy y.npy --methods rmc": "rmc",
    "compare x.npy y.npy --methods words": "--methods words: needs the rows' texts",
    "compare x.npy y.npy --budget 2m": "--budget has no effect without --train",
    "compare x.npy y.npy --around": "--around has no effect without --train",
    "compare x.npy y.npy -k 128 --train": "300 rows leave 210 to train on, expected at least two batches of 128",
    "compare x.npy y.npy --train --budget soon": "--budget soon: expected a time",
    "embed none.csv -m model": "none.csv: file not found",
    "embed pairs.csv -m model --x-text q --y-text answer": "--x-text",
    "embed t.txt -m model": "t.txt: found .txt, expected .parquet",
    "embed pairs.csv -m model": "--model model: found no such folder",
    "embed pairs.csv -m model -o x.npz": "--output x.npz",
    "embed pairs.csv -m model --y-text empty": "pairs.csv:empty: row 0 has no text",
}


OUTPUTS = [
    "plan p.parquet -o p.parquet -f",
    "plan x.npy y.npy -o o.npy --report x.npy -f",
    "plan x.npy y.npy -o o.npy --report o.npy -f",
    "report x.npy y.npy -p made.npy -o made.npy -f",
    "report x.npy y.npy -p made.npy --html made.npy -f",
    "report x.npy y.npy -p made.npy --html made.npy.manifest.json -f",
    "report x.npy y.npy -p made.npy -o same --html same",
    "report x.npy y.npy -p made.npy --groups g.txt -o g.txt -f",
    "report x.npy y.npy -p made.npy --rows 100 -o y.npy -f",
    "mine p.parquet -o p.parquet -f",
    "apply -p made.npy lines.jsonl -o lines.jsonl -f",
]
"""No output replaces an input of its own command or another output, whatever --force says."""
TEXTS = {
    "g.txt": "".join(f"{row // 2}\n" for row in range(300)),
    "lines.jsonl": '{"row": 1}\n' * 300,
    "t.txt": "same\n" * 300,
    "short.txt": "one\ntwo\n",
    "pairs.csv": "x,y,empty\na,b,\nc,d,\n",
    "here.json": "mine",
    "lone.npy.manifest.json": "of something else",
    "lone/perm.npy.manifest.json": "of something else",
    "pyproject.toml": "[project]\nname = 'p'\n",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Embeddings in several forms, links to them, ids, two plans, one with its report, and what nobody can use."""
    folder = tmp_path_factory.mktemp("made")
    sides = {side: np.load(SAMPLE / f"{side}.npy")[:300] for side in "xy"}
    pq.write_table(pa.table({side: list(np.float32(rows)) for side, rows in sides.items()}), folder / "p.parquet")
    for side, rows in sides.items():
        np.save(folder / f"{side}.npy", rows)
    run_gcbs("plan", "x.npy", "y.npy", "-o", "made.npy", "--report", "r.json", cwd=folder, check=True)
    np.save(folder / "one.npy", sides["x"][:1])
    sides["x"][[5, 17], 3] = np.nan
    np.save(folder / "nan.npy", sides["x"])
    for name in ("here.npy", "odd.npy"):
        np.save(folder / name, np.arange(300))
    for name in ("folder.npy", "odd.npy.manifest.json"):
        (folder / name).mkdir()
    os.mkfifo(folder / "pipe.npy")
    (folder / "lone").mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("command", [*REFUSED, *OUTPUTS])
def test_what_does_not_fit_is_refused(gcbs, made, monkeypatch, command):
    for library in ("ray", "pymetis"):
        monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.chdir(made)
    check_refused(gcbs, command.split(), REFUSED.get(command, "name another"))


def test_a_full_gpu_ends_in_one_line_that_names_it(gcbs, folder, monkeypatch):
    import torch

    from gcbs_cli.products.torch_device import TorchBackend

    class Full(TorchBackend):
        def load(self, left, right):
            raise torch.OutOfMemoryError(
                "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which "
                "1.05 GiB is free. Process 77 has 78.10 GiB memory in use.\nIf reserved"
            )

    monkeypatch.setattr("gcbs_cli.planning.plan.choose_backend", lambda *_: Full(["cpu"]))
    result = gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-q")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("gcbs: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 79.15")
    assert "1.05 GiB is free; try --partitions" in line
    assert not Path("perm.npy").exists()


@pytest.mark.parametrize(("text", "says"), [("", "stdin: holds no indices"), ("0\n1\n", "stdin: 2 indices, but the")])
def test_bad_indices_on_stdin(gcbs, folder, text, says):
    check_refused(gcbs, ["report", "x.npy", "y.npy", "-p", "-"], says, stdin=text)


@pytest.mark.parametrize(
    "command",
    [
        "plan x.npy y.npy --config pipe.json",
        "history pipe.json",
        "check -p p.npy",
        "plan x.npy y.npy --groups pipe.txt",
        "apply -p i.npy pipe.json -o o.jsonl",
    ],
)
def test_a_pipe_without_a_writer_is_not_waited_for(gcbs, folder, command):
    for name in ("p.npy", "i.npy"):
        np.save(name, np.arange(300))
    for name in ("pipe.json", "pipe.txt", "p.npy.manifest.json"):
        os.mkfifo(name)
    check_refused(gcbs, command.replace("pipe.json -o", "pipe.txt -o").split(), "expected")


def test_an_error_that_nobody_foresaw_is_one_line(gcbs, folder, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("a\x1b[31m\nb at http://me:secret@host/x?key=hidden")

    monkeypatch.setattr("gcbs_cli.cli.plan.make_plan", fail)
    monkeypatch.delenv("GCBS_TRACEBACK")
    ended = gcbs("plan", "x.npy", "y.npy")
    assert (ended.exit_code, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("gcbs: ZeroDivisionError: a [31m b at http://host/x?…; a bug in")
    monkeypatch.setenv("GCBS_TRACEBACK", "1")
    assert isinstance(gcbs("plan", "x.npy", "y.npy").exception, ZeroDivisionError)


def test_what_is_in_place_before_an_error_is_said(gcbs, folder, monkeypatch):
    monkeypatch.setattr("gcbs_cli.reports.losses.make_reports", lambda *_, **__: [1 // 0])
    monkeypatch.delenv("GCBS_TRACEBACK")
    ended = gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "--report", "r.json", "-q")
    assert ended.exit_code == 1
    assert ended.stderr.endswith("; in place: perm.npy\n")
    assert gcbs("check", "-p", "perm.npy", "x.npy", "y.npy").exit_code == 0


def test_a_folder_that_is_gone_is_named(folder):
    for words, code in (("plan x.npy y.npy", 2), ("--version", 0)):
        ended = run_bash(f"mkdir gone; cd gone; rmdir ../gone; gcbs {words}")
        assert ended.returncode == code
        assert ended.stderr == "gcbs: the current folder is gone; change to another one\n" * (code > 0)
