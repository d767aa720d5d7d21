"""Every bad input ends in exit code 2, one line that says what to do, and no file."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Gcbs, check_refused

SIDES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], list[str]]] = {
    "rows differ": (lambda y: y[:299], ["299", "300"]),
    "dimensions differ": (lambda y: y[:, :100], ["100", "384"]),
    "not 2-D": (lambda y: y[:, 0], ["(300,)", "2-D"]),
    "NaN": (lambda y: np.where(np.isin(np.arange(300), (5, 17))[:, None], np.nan, y), ["2 rows", "5, 17", "NaN"]),
    "zero rows": (lambda y: y * (np.arange(300) >= 20)[:, None], ["20 rows", "0, 1, 2, 3, 4, 5, 6, 7, 8, 9", "zeros"]),
    "objects": (lambda y: np.array([{"a": 1}] * 300, dtype=object), ["object"]),
    "integers": (lambda y: np.ones((300, 384), np.int32), ["int32", "float"]),
    "void elements": (lambda y: np.zeros((300, 384), "V2"), ["--dtype bfloat16"]),
}
"""What Y holds instead of its rows, and words of the refusal."""

COLUMNS: dict[str, tuple[list[object], pa.DataType, str]] = {
    "null row": ([[1.0, 2.0], None, *[[3.0, 4.0]] * 98], pa.list_(pa.float32(), 2), "null"),
    "null value": ([[1.0, 2.0], [None, 1.0], *[[3.0, 4.0]] * 98], pa.list_(pa.float32()), "null"),
    "ragged lists": ([[1.0, 2.0], [1.0], *[[3.0, 4.0]] * 98], pa.list_(pa.float32()), "bad.parquet"),
    "column of strings": (["a", "b"], pa.string(), "string"),
}


@pytest.mark.parametrize("command", ["plan x.npy z.npy", "report x.npy z.npy -o out.json", "check p.npy x.npy z.npy"])
@pytest.mark.parametrize("case", SIDES)
def test_bad_rows(gcbs: Gcbs, folder: Path, case: str, command: str) -> None:
    make, said = SIDES[case]
    np.save("z.npy", make(np.load("y.npy")), allow_pickle=True)
    np.save("p.npy", np.arange(300))
    check_refused(gcbs, command.split(), "z.npy", *said)


@pytest.mark.parametrize("case", COLUMNS)
def test_bad_column(gcbs: Gcbs, folder: Path, case: str) -> None:
    values, kind, said = COLUMNS[case]
    pq.write_table(pa.table({side: pa.array(values, kind) for side in "xy"}), "bad.parquet")
    check_refused(gcbs, ["plan", "bad.parquet"], "bad.parquet", said)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ("x.npy empty.npy", ["empty.npy", "empty"]),
        ("x.npy torn.npy", ["torn.npy"]),
        ("x.npy random.npy", ["random.npy"]),
        ("torn.parquet", ["torn.parquet"]),
        ("x.npy", ["x.npy", "second argument"]),
        ("x.npy none.npy", ["none.npy"]),
        ("x.npy y.csv", ["y.csv"]),
        ("z.npz", ["z.npz"]),
        ("one.npy one.npy", ["one.npy", "at least 2"]),
        ("shards y.npy", ["1.npy", "50", "384"]),
    ],
)
def test_bad_file(gcbs: Gcbs, folder: Path, files: str, said: list[str]) -> None:
    Path("empty.npy").touch()
    Path("torn.npy").write_bytes(Path("y.npy").read_bytes()[:-100])
    Path("random.npy").write_bytes(os.urandom(1000))
    pq.write_table(pa.table({"x": [[1.0, 2.0]] * 50, "y": [[1.0, 2.0]] * 50}), "torn.parquet")
    Path("torn.parquet").write_bytes(Path("torn.parquet").read_bytes()[:-20])
    x = np.load("x.npy")
    np.savez("z.npz", x=x)
    np.save("one.npy", x[:1])
    Path("shards").mkdir()
    np.save("shards/0.npy", x[:100])
    np.save("shards/1.npy", x[100:, :50])
    check_refused(gcbs, ["plan", *files.split()], *said)


def test_a_full_gpu_ends_in_one_line_that_names_it(gcbs: Gcbs, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    import torch

    from gcbs_cli.products.torch_device import Sides, TorchBackend

    class Full(TorchBackend):
        def load(self, left: np.ndarray, right: np.ndarray) -> Sides:
            raise torch.OutOfMemoryError(
                "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which "
                "1.05 GiB is free. Process 77 has 78.10 GiB memory in use.\nIf reserved"
            )

    monkeypatch.setattr("gcbs_cli.planning.plan.choose_backend", lambda device: Full(["cpu"]))
    result = gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "-q")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("gcbs: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 79.15")
    assert "1.05 GiB is free; try --partitions" in line
    assert not Path("perm.npy").exists()


def test_a_folder_that_cannot_be_written_is_found_before_the_work(gcbs: Gcbs, folder: Path) -> None:
    Path("locked").mkdir(mode=0o500)
    if os.access("locked", os.W_OK):
        pytest.skip("this user may write everywhere")
    check_refused(gcbs, ["plan", "x.npy", "y.npy", "-o", "locked/perm.npy"], "locked")


@pytest.mark.parametrize(
    ("text", "word"),
    [("", "stdin"), ("0\n1\n2\n", "300"), ("0\nx\n", "line 2"), ("0\n" * 300, "more than once")],
    ids=["empty", "too short", "not a number", "one index again and again"],
)
def test_bad_indices_on_stdin(gcbs: Gcbs, folder: Path, text: str, word: str) -> None:
    check_refused(gcbs, ["report", "x.npy", "y.npy", "-p", "-"], word, stdin=text)


@pytest.mark.parametrize(
    "command",
    [
        "--config pipe.json plan x.npy y.npy",
        "history pipe.json",
        "check p.npy",
        "plan saved saved",
        "plan x.npy y.npy --groups pipe.txt",
        "apply i.npy pipe.json -o o.jsonl",
    ],
)
def test_a_pipe_without_a_writer_is_not_waited_for(gcbs: Gcbs, folder: Path, command: str) -> None:
    for name in ("p.npy", "i.npy"):
        np.save(name, np.arange(300))
    Path("saved").mkdir()
    Path("saved/dataset_info.json").write_text("{}")
    for name in ("pipe.json", "pipe.txt", "p.npy.manifest.json", "saved/state.json"):
        os.mkfifo(name)
    check_refused(gcbs, command.replace("pipe.json -o", "pipe.txt -o").split(), "expected")


def test_an_error_that_nobody_foresaw_is_one_line(gcbs: Gcbs, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a\x1b[31m\nb at http://me:secret@host/x?key=hidden")

    monkeypatch.setattr("gcbs_cli.cli.plan.make_plan", fail)
    monkeypatch.delenv("GCBS_TRACEBACK")
    ended = gcbs("plan", "x.npy", "y.npy")
    assert (ended.exit_code, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("gcbs: ZeroDivisionError: a [31m b at http://host/x?…; a defect")
    monkeypatch.setenv("GCBS_TRACEBACK", "1")
    assert isinstance(gcbs("plan", "x.npy", "y.npy").exception, ZeroDivisionError)


def test_what_is_in_place_before_an_error_is_said(gcbs: Gcbs, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gcbs_cli.reports.build.make_reports", lambda *_, **__: [1 // 0])
    monkeypatch.delenv("GCBS_TRACEBACK")
    ended = gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "--report", "r.json", "-q")
    assert ended.exit_code == 1
    assert ended.stderr.endswith("; in place: perm.npy\n")
    assert gcbs("check", "perm.npy", "x.npy", "y.npy").exit_code == 0


def test_a_folder_that_is_gone_is_named(folder: Path) -> None:
    for words, code in (("plan x.npy y.npy", 2), ("--version", 0)):
        command = f"mkdir gone && cd gone && rmdir ../gone && {sys.executable} -m gcbs_cli {words}"
        ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
        assert ended.returncode == code
        assert ended.stderr == "gcbs: the current folder is gone; change to another one\n" * (code > 0)
