"""Every bad input ends in exit code 2, one line that says what to do, and no file."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Gcbs

Make = Callable[[], list[str]]


def _save(name: str, array: np.ndarray) -> None:
    np.save(name, array)


def _other_rows() -> list[str]:
    _save("z.npy", np.load("y.npy")[:299])
    return ["x.npy", "z.npy"]


def _other_dim() -> list[str]:
    _save("z.npy", np.load("y.npy")[:, :100])
    return ["x.npy", "z.npy"]


def _one_dimension() -> list[str]:
    _save("z.npy", np.zeros(300, np.float32))
    return ["x.npy", "z.npy"]


def _single_row() -> list[str]:
    for side in "xy":
        _save(f"one_{side}.npy", np.load(f"{side}.npy")[:1])
    return ["one_x.npy", "one_y.npy"]


def _nan() -> list[str]:
    array = np.load("y.npy")
    array[[5, 17]] = np.nan
    _save("z.npy", array)
    return ["x.npy", "z.npy"]


def _zero_rows() -> list[str]:
    array = np.load("y.npy")
    array[3:20] = 0
    _save("z.npy", array)
    return ["x.npy", "z.npy"]


def _empty() -> list[str]:
    Path("z.npy").touch()
    return ["x.npy", "z.npy"]


def _truncated() -> list[str]:
    Path("z.npy").write_bytes(Path("y.npy").read_bytes()[:-100])
    return ["x.npy", "z.npy"]


def _garbage() -> list[str]:
    Path("z.npy").write_bytes(os.urandom(1000))
    return ["x.npy", "z.npy"]


def _pickled() -> list[str]:
    np.save("z.npy", np.array([{"a": 1}] * 300, dtype=object), allow_pickle=True)
    return ["x.npy", "z.npy"]


def _integers() -> list[str]:
    _save("z.npy", np.ones((300, 384), np.int32))
    return ["x.npy", "z.npy"]


def _void() -> list[str]:
    _save("z.npy", np.zeros((300, 384), "V2"))
    return ["x.npy", "z.npy"]


def _column(values: list[object], kind: pa.DataType) -> list[str]:
    pq.write_table(pa.table({"x": pa.array(values, kind), "y": pa.array(values, kind)}), "bad.parquet")
    return ["bad.parquet"]


def _null_row() -> list[str]:
    return _column([[1.0, 2.0], None, *[[3.0, 4.0]] * 98], pa.list_(pa.float32(), 2))


def _null_value() -> list[str]:
    return _column([[1.0, 2.0], [None, 1.0], *[[3.0, 4.0]] * 98], pa.list_(pa.float32()))


def _ragged() -> list[str]:
    return _column([[1.0, 2.0], [1.0], *[[3.0, 4.0]] * 98], pa.list_(pa.float32()))


def _strings() -> list[str]:
    return _column(["a", "b"], pa.string())


def _torn_parquet() -> list[str]:
    _column([[1.0, 2.0]] * 50, pa.list_(pa.float32()))
    Path("bad.parquet").write_bytes(Path("bad.parquet").read_bytes()[:-20])
    return ["bad.parquet"]


def _shards_of_other_width() -> list[str]:
    Path("shards").mkdir()
    _save("shards/0.npy", np.load("x.npy")[:100])
    _save("shards/1.npy", np.load("x.npy")[100:, :50])
    return ["shards", "y.npy"]


def _archive() -> list[str]:
    np.savez("z.npz", x=np.load("x.npy"))
    return ["z.npz"]


BAD_FILES: dict[str, tuple[Make, list[str]]] = {
    "rows differ": (_other_rows, ["z.npy", "299", "300"]),
    "dimensions differ": (_other_dim, ["z.npy", "100", "384"]),
    "not 2-D": (_one_dimension, ["z.npy", "(300,)", "2-D"]),
    "one pair": (_single_row, ["one_x.npy", "at least 2"]),
    "NaN": (_nan, ["z.npy", "2 rows", "5, 17", "NaN"]),
    "zero rows": (_zero_rows, ["z.npy", "17 rows", "3, 4, 5, 6, 7, 8, 9, 10, 11, 12", "zeros"]),
    "empty file": (_empty, ["z.npy", "empty"]),
    "truncated": (_truncated, ["z.npy"]),
    "random bytes": (_garbage, ["z.npy"]),
    "object array": (_pickled, ["z.npy", "object"]),
    "integers": (_integers, ["z.npy", "int32", "float"]),
    "void elements": (_void, ["z.npy", "--dtype bfloat16"]),
    "lone npy": (lambda: ["x.npy"], ["x.npy", "second argument"]),
    "missing file": (lambda: ["x.npy", "none.npy"], ["none.npy"]),
    "unknown suffix": (lambda: ["x.npy", "y.csv"], ["y.csv"]),
    "npz": (_archive, ["z.npz"]),
    "null row": (_null_row, ["bad.parquet", "null"]),
    "null value": (_null_value, ["bad.parquet", "null"]),
    "ragged lists": (_ragged, ["bad.parquet"]),
    "column of strings": (_strings, ["bad.parquet", "string"]),
    "torn parquet": (_torn_parquet, ["bad.parquet"]),
    "shards differ": (_shards_of_other_width, ["1.npy", "50", "384"]),
}


@pytest.mark.parametrize("command", ["plan", "report", "check"])
@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_file(gcbs: Gcbs, folder: Path, case: str, command: str) -> None:
    make, words = BAD_FILES[case]
    inputs = make()
    if command == "check":
        np.save("order.npy", np.arange(300))
        inputs = ["order.npy", *inputs]
    before = sorted(os.listdir())
    options = ["-o", "out.json" if command == "report" else "perm.npy"] if command != "check" else []
    result = gcbs(command, *inputs, *options)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    for word in words:
        assert word in line
    assert sorted(os.listdir()) == before


BAD_OPTIONS: dict[str, tuple[list[str], str]] = {
    "batch of one": (["-k", "1"], "--batch-size 1"),
    "batch larger than the data": (["-k", "301"], "--batch-size 301"),
    "quantile below 0": (["--quantile", "-0.5"], "--quantile"),
    "per row beyond N": (["--per-row", "300"], "--per-row"),
    "temperature 0": (["--temperature", "0"], "--temperature"),
    "temperature NaN": (["--temperature", "nan"], "--temperature"),
    "negative seed": (["--seed", "-1"], "--seed"),
    "unknown device": (["--device", "tpu"], "--device tpu"),
    "a GPU that is not there": (["--device", "cuda:99"], "--device cuda:99"),
    "GPUs one of which is not there": (["--device", "cuda:0,99"], "--device cuda:0,99: PyTorch sees"),
    "a GPU twice": (["--device", "cuda:0,0"], "--device cuda:0,0: names cuda:0 twice"),
    "no device at all": (["--device", "cuda:"], "expected auto, cpu, cuda, cuda:INDEX, cuda:0,1,... or cuda:all"),
    "too little memory": (["--max-memory", "1K"], "--max-memory"),
    "no rows a chunk": (["--chunk-rows", "0"], "--chunk-rows 0"),
    "no edges": (["--max-edges", "0"], "--max-edges 0"),
    "unknown output format": (["-o", "perm.csv"], "perm.csv"),
    "no such folder": (["-o", "none/perm.npy"], "none"),
    "a folder as output": (["-o", "."], "."),
    "json and indices on stdout": (["-o", "-", "--json"], "--json"),
    "report in no folder": (["--report", "none/report.json"], "none"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_option(gcbs: Gcbs, folder: Path, case: str) -> None:
    options, word = BAD_OPTIONS[case]
    if "99" in options[-1]:  # PyTorch says which GPUs there are
        pytest.importorskip("torch")
    before = sorted(os.listdir())
    output = [] if "-o" in options else ["-o", "perm.npy"]
    result = gcbs("plan", "x.npy", "y.npy", *output, *options)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert word in line
    assert sorted(os.listdir()) == before


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


def test_a_folder_that_cannot_be_written_is_found_before_the_work(gcbs_process, folder: Path) -> None:
    locked = folder / "locked"
    locked.mkdir(mode=0o500)
    if os.access(locked, os.W_OK):
        pytest.skip("this user may write everywhere")
    result = gcbs_process("plan", "x.npy", "y.npy", "-o", "locked/perm.npy", cwd=folder)
    assert result.returncode == 2
    assert "locked" in result.stderr


@pytest.mark.parametrize(
    ("text", "word"),
    [("", "stdin"), ("0\n1\n2\n", "300"), ("0\nx\n", "line 2"), ("0\n" * 300, "more than once")],
    ids=["empty", "too short", "not a number", "one index again and again"],
)
def test_bad_indices_on_stdin(gcbs_process, folder: Path, text: str, word: str) -> None:
    result = gcbs_process("report", "x.npy", "y.npy", "-p", "-", cwd=folder, input=text)
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert word in line
