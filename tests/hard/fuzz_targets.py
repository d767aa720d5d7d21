"""One target for each reader: a file in, and either a BadInput of one line or a result that is right."""

import os
import re
import time

import numpy as np

from gcbs_cli.apply.reorder import SUFFIXES, find_files, reorder
from gcbs_cli.data.opening import open_pair, open_side
from gcbs_cli.data.reading import UnitRowBlocks
from gcbs_cli.data.row_values import READERS, WITH_COLUMNS
from gcbs_cli.data.source import ColumnChoice
from gcbs_cli.plan_file import permutation
from gcbs_cli.plan_file.manifest import manifest_path, read_manifest
from gcbs_cli.plan_file.permutation import read_permutation, verify_permutation
from gcbs_cli.system.errors import BadInput

SECONDS = 10.0
"""Longer than any reader may take on a file of some kilobytes, even on a busy machine."""
LONGEST_MESSAGE = 1500


def _check_rows(source):
    values = UnitRowBlocks(source).read()
    assert values.shape == (source.rows, source.dim)
    assert source.rows >= 2
    assert values.dtype == np.float32
    assert np.abs(np.linalg.norm(values.astype(np.float64), axis=1) - 1.0).max() < 1e-5


def _both_sides(path):
    for source in open_pair(str(path), None):
        _check_rows(source)


def _one_side(path):
    source = open_side(str(path), ColumnChoice("x"))
    if source.rows < 2:
        raise BadInput("found fewer than 2 rows")
    _check_rows(source)


def _shards(path):
    folder = path.parent / "shards"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for number in range(2):
        (folder / f"part-{number}{path.suffix}").write_bytes(path.read_bytes())
    _one_side(folder)


def _permutation(path):
    perm = read_permutation(path)
    assert (perm.dtype, perm.ndim) == (np.int64, 1)
    verify_permutation(perm, 300, str(path))
    assert sorted(perm.tolist()) == list(range(300))


def _manifest(path):
    manifest_path(path).write_bytes(path.read_bytes())
    assert read_manifest(path) is not None


def _report(path):
    from gcbs_cli.comparison.history import read_history

    read_history([str(path)])


def _values(path):
    from gcbs_cli.data.row_values import ids_of, labels_of, read_row_values, text_of

    refused = None
    for column in (None, "id"):
        for take in (ids_of, lambda values: list(map(text_of, values)), lambda values: labels_of(values, "--labels")):
            try:
                take(read_row_values(str(path), "--positives", column))
            except BadInput as error:
                refused = error
                _check_message(str(error))
    if refused is not None:
        raise refused


def _config(path):
    from gcbs_cli.cli.app import COMMANDS
    from gcbs_cli.cli.defaults import build, check_keys, find_config, values_of
    from gcbs_cli.settings.others import model_of

    file = find_config(str(path))
    check_keys(COMMANDS, file)
    build(model_of("plan"), values_of("plan", file, {"x": "x.npy"}))


def _applied(path):
    """Turn the rows round three times: the third file is the first."""

    def turned(source, target):
        try:
            reorder(np.arange(1), find_files(str(source)), target, memory=1 << 29)
        except BadInput as error:
            rows = ROWS_FOUND.search(str(error))
            if rows is None or not 0 < int(rows[1].replace(",", "")) < 10**5:
                raise
            reorder(np.arange(int(rows[1].replace(",", "")))[::-1], find_files(str(source)), target, memory=1 << 29)
        return target.read_bytes()

    first, second = (path.with_name(f"{name}{path.suffix}") for name in ("first", "second"))
    once = turned(path, first)
    turned(first, second)
    assert turned(second, first) == once or path.suffix == ".parquet"


def _texts(path):
    from gcbs_cli.data.row_values import read_texts

    assert all(text.strip() for text in read_texts(str(path), "id", "--x-text"))


def _embeddings(path):
    (_one_side if path.suffix == ".npy" else _both_sides)(path)


EMBEDDINGS = ".npy", ".safetensors", ".parquet"
ROWS_FOUND = re.compile(r"the data has ([0-9,]+) rows")
BY_SUFFIX = {
    "": (EMBEDDINGS, _embeddings),
    "shards of ": (EMBEDDINGS, _shards),
    "permutation.": (permutation.SUFFIXES, _permutation),
    "values.": (READERS, _values),
    "applied.": (SUFFIXES, _applied),
    "texts.": (WITH_COLUMNS, _texts),
}
"""Who reads files by their suffix, and which: a suffix that is added there is tried here."""
TARGETS = {
    f"{role}{suffix[1:]}": (suffix, read) for role, (suffixes, read) in BY_SUFFIX.items() for suffix in suffixes
} | {
    "manifest": (".json", _manifest),
    "report": (".json", _report),
    "config": (".toml", _config),
}
"""The readers: the suffix of their file, and the function that reads and checks."""


def _check_message(message):
    assert len(message.splitlines()) == 1
    assert message.isprintable()
    assert len(message) <= LONGEST_MESSAGE


def attempt(target, data, folder):
    """Give `data` to the reader; whether it was `read` or `refused`, by a BadInput.

    Raises AssertionError, or whatever the reader lets through, when it does not end well.
    """
    suffix, read = TARGETS[target]
    path = folder / f"input{suffix}"
    path.write_bytes(data)
    before, began, outcome = len(os.listdir("/proc/self/fd")), time.process_time(), "read"
    try:
        read(path)
    except BadInput as error:
        outcome = "refused"
        _check_message(str(error))
    assert time.process_time() - began < SECONDS
    assert len(os.listdir("/proc/self/fd")) <= before, "left a file open"
    return outcome
