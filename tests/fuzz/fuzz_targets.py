"""One target for each reader: a file in, and either a BadInput of one line or a result that is right."""

import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from fuzz_inputs import make_input

from gcbs_cli.data import EmbeddingSource, open_pair, read_unit_rows
from gcbs_cli.data.columns import ColumnChoice
from gcbs_cli.data.opening import open_side
from gcbs_cli.plan_file.manifest import Manifest, parse_manifest
from gcbs_cli.plan_file.permutation import read_permutation
from gcbs_cli.system.errors import BadInput

SECONDS = 10.0
"""Longer than any reader may take on a file of some kilobytes, even on a busy machine."""
LONGEST_MESSAGE = 1500


def _check_rows(source: EmbeddingSource) -> None:
    values = read_unit_rows(source).values
    assert values.shape == (source.rows, source.dim)
    assert source.rows >= 2
    assert values.dtype == np.float32
    assert np.abs(np.linalg.norm(values.astype(np.float64), axis=1) - 1.0).max() < 1e-5


def _both_sides(path: Path) -> None:
    for source in open_pair(str(path), None):
        _check_rows(source)


def _one_side(path: Path, dtype: str | None = None) -> None:
    source = open_side(str(path), ColumnChoice("x"), dtype)
    if source.rows < 2:
        raise BadInput("found fewer than 2 rows")
    _check_rows(source)


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
    assert (perm.dtype, perm.ndim) == (np.int64, 1)
    assert sorted(read_permutation(path, 300).tolist()) == list(range(300))


def _manifest(path: Path) -> None:
    assert isinstance(parse_manifest(path.read_bytes(), path.name), Manifest)


def _report(path: Path) -> None:
    from gcbs_cli.comparison.history import read_history

    read_history([str(path)])


def _values(path: Path) -> None:
    from gcbs_cli.data.row_values import flags_of, ids_of, read_row_values, texts_of

    refused = None
    for column in (None, "id"):
        for take in (ids_of, texts_of, lambda values: flags_of(values, "--labels")):
            try:
                take(read_row_values(str(path), "--positives", column))
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


def input_of(target: str, way: str, seed: int) -> bytes:
    """The file of one try; the same for the same seed."""
    kind = target.removeprefix("shards of ").removesuffix(" as bfloat16")
    return make_input(kind, way, random.Random(f"{target} {way} {seed}"))


def _check_message(message: str) -> None:
    assert len(message.splitlines()) == 1
    assert message.isprintable()
    assert len(message) <= LONGEST_MESSAGE


def attempt(target: str, data: bytes, folder: Path) -> str:
    """Give `data` to the reader; whether it was `read` or `refused`, by a BadInput.

    Raises AssertionError, or whatever the reader lets through, when it does not end well.
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
    assert time.monotonic() - began < SECONDS
    assert len(os.listdir("/proc/self/fd")) <= before, "left a file open"
    return outcome
