"""One target for each reader: a file in, and either a BadInput of one line or a result that is right."""

import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_inputs import make_input

from gcbs_cli.data import open_pair, read_unit_rows
from gcbs_cli.data.columns import ColumnChoice
from gcbs_cli.data.opening import open_side
from gcbs_cli.plan_file.manifest import Manifest, parse_manifest
from gcbs_cli.plan_file.permutation import read_permutation
from gcbs_cli.system.errors import BadInput

SECONDS = 10.0
"""Longer than any reader may take on a file of some kilobytes, even on a busy machine."""
LONGEST_MESSAGE = 1500


class Wrong(AssertionError):
    """A try that ended neither in BadInput of one line nor in a right result."""


def _check_rows(values: Any, rows: int, dim: int) -> None:
    if values.shape != (rows, dim) or rows < 2 or values.dtype != np.float32:
        raise Wrong(f"shape {values.shape} of {values.dtype} for {rows} x {dim}")
    norms = np.linalg.norm(values.astype(np.float64), axis=1)
    if not (np.abs(norms - 1.0) < 1e-5).all():
        raise Wrong(f"norms {norms.min()} to {norms.max()}")


def _both_sides(path: Path) -> None:
    for source in open_pair(str(path), None):
        read = read_unit_rows(source)
        _check_rows(read.values, source.rows, source.dim)


def _one_side(path: Path, dtype: str | None = None) -> None:
    source = open_side(str(path), ColumnChoice("x"), dtype)
    if source.rows < 2:
        raise BadInput("found fewer than 2 rows")
    _check_rows(read_unit_rows(source).values, source.rows, source.dim)


def _shards(path: Path) -> None:
    folder = path.parent / "shards"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for number in range(2):
        (folder / f"part-{number}{path.suffix}").write_bytes(path.read_bytes())
    _one_side(folder)


def _permutation(path: Path) -> None:
    perm = read_permutation(path)
    if perm.dtype != np.int64 or perm.ndim != 1:
        raise Wrong(f"{perm.dtype} {perm.shape}")
    perm = read_permutation(path, 300)
    if sorted(perm.tolist()) != list(range(300)):
        raise Wrong("no permutation of 0..299")


def _manifest(path: Path) -> None:
    if not isinstance(parse_manifest(path.read_bytes(), path.name), Manifest):
        raise Wrong("no manifest")


def _report(path: Path) -> None:
    from gcbs_cli.comparison.history import read_history

    read_history([str(path)])


def _values(path: Path) -> None:
    from gcbs_cli.data.row_values import read_row_flags, read_row_ids, read_row_texts

    refused = None
    for read in (read_row_ids, read_row_texts, read_row_flags):
        for column in (None, "id"):
            try:
                read(str(path), "--positives", column)
            except BadInput as error:
                refused = error
                _check_message(str(error))
    if refused is not None:
        raise refused


def _config(path: Path) -> None:
    from gcbs_cli.cli.app import COMMANDS
    from gcbs_cli.cli.defaults import build, check_keys, defaults_of, find_config
    from gcbs_cli.cli.signature import model_of

    models = {name: model_of(name) for name in COMMANDS if name != "config"}
    file = find_config(str(path))
    check_keys(models, file)
    build(models["plan"], defaults_of("plan", models["plan"], file, {}), {"x": "x.npy"})


TARGETS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "npy": (".npy", _one_side),
    "npy as bfloat16": (".npy", partial(_one_side, dtype="bfloat16")),
    "parquet": (".parquet", _both_sides),
    "safetensors": (".safetensors", _both_sides),
    "arrow": (".arrow", _both_sides),
    "shards of npy": (".npy", _shards),
    "shards of parquet": (".parquet", _shards),
    "permutation.npy": (".npy", _permutation),
    "permutation.parquet": (".parquet", _permutation),
    "permutation.txt": (".txt", _permutation),
    "manifest": (".json", _manifest),
    "report": (".json", _report),
    "config": (".toml", _config),
    "values.npy": (".npy", _values),
    "values.parquet": (".parquet", _values),
    "values.csv": (".csv", _values),
    "values.jsonl": (".jsonl", _values),
    "values.txt": (".txt", _values),
}
"""The readers: the suffix of their file, and the function that reads and checks."""


def input_kind(target: str) -> str:
    """Of which kind of file the target reads."""
    return target.removeprefix("shards of ").removesuffix(" as bfloat16")


def input_of(target: str, way: str, seed: int) -> bytes:
    """The file of one try; the same for the same seed."""
    return make_input(input_kind(target), way, random.Random(f"{target} {way} {seed}"))


def _check_message(message: str) -> None:
    if len(message.splitlines()) != 1 or not message.isprintable() or len(message) > LONGEST_MESSAGE:
        raise Wrong(f"not one line: {message[:300]!r}")


def attempt(target: str, data: bytes, folder: Path) -> str:
    """Give `data` to the reader; whether it was `read` or `refused`, by a BadInput.

    Raises Wrong, or whatever the reader lets through, when it does not end well.
    """
    suffix, read = TARGETS[target]
    path = folder / f"input{suffix}"
    path.write_bytes(data)
    before, began, outcome = len(os.listdir("/proc/self/fd")), time.monotonic(), "read"
    try:
        read(path)
    except BadInput as error:
        outcome = "refused"
        _check_message(str(error))
    if time.monotonic() - began > SECONDS:
        raise Wrong("took too long")
    if len(os.listdir("/proc/self/fd")) > before:
        raise Wrong("left a file open")
    return outcome
