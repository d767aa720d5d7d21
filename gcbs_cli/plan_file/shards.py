"""A permutation as a folder: `part-00000.npy` … in plan order and one `manifest.json`, there whole or not at all."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.folders import natural_key
from gcbs_cli.plan_file import npy_format, writing
from gcbs_cli.plan_file.manifest import (
    FOLDER_MANIFEST,
    Manifest,
    ManifestEntry,
    ShardRecord,
    manifest_text,
    read_manifest,
)
from gcbs_cli.plan_file.messages import wrong_length
from gcbs_cli.system.errors import BadInput

SHARD_ROWS = 1 << 24
"""Rows of a file, about, where the plan has no parts: 128 MiB."""
_PATTERN = "part-*.npy"


def is_folder(path: Path | str) -> bool:
    """Whether a plan's name means a folder: it ends in a slash, or there is one."""
    return str(path).endswith("/") or os.path.isdir(path)


def check_folder(path: Path, force: bool) -> None:
    """Raises BadInput where the folder cannot be written, exists and `force` is false, or is there and is no plan."""
    if not os.path.isdir(path):
        writing.check_outputs([path], force=force)
        return
    place = Path(os.path.realpath(path))
    writing.check_outputs([place.parent / f"{place.name}.gcbs"], force=True)
    if not force:
        raise BadInput(f"{path}: exists; use --force to replace it")
    others = [name for name in os.listdir(path) if name != FOLDER_MANIFEST and not Path(name).match(_PATTERN)]
    if others or not (path / FOLDER_MANIFEST).is_file():
        what = f"holds {others[0]}" if others else f"has no {FOLDER_MANIFEST}"
        raise BadInput(f"{path}: is a folder and no plan ({what}); name another one, it will not be replaced")


def write_folder(path: Path, perm: NDArray[np.int64], entry: ManifestEntry) -> None:
    """Write the shards and the manifest; an older plan in that folder goes in the same step.

    Raises GcbsError when the disk does not take it; then what was there is there still.
    """
    sizes = _shard_rows(len(perm), entry)
    names = [f"part-{number:05d}.npy" for number in range(len(sizes))]
    shards = [ShardRecord(name=name, rows=rows) for name, rows in zip(names, sizes, strict=True)]
    with writing.folder(path) as folder:
        start = 0
        for shard in shards:
            piece = perm[start : start + shard.rows]
            writing.write(folder / shard.name, partial(npy_format.write, perm=piece))
            start += shard.rows
        writing.write(folder / FOLDER_MANIFEST, manifest_text([entry.model_copy(update={"shards": shards})]))


def read_folder(path: Path, rows: int | None) -> NDArray[np.int64]:
    """The whole permutation (N,) int64. Raises BadInput for files that are missing, damaged or more than expected."""
    manifest = read_manifest(path)
    pieces = []
    for name, expected in _shards(path, manifest):
        source = f"{path}/{name}"
        try:
            with (path / name).open("rb") as file:
                pieces.append(npy_format.read(file, source, expected))
        except FileNotFoundError as error:
            raise BadInput(f"{source}: no such file, though the manifest names it; copy the whole folder") from error
        except OSError as error:
            raise BadInput(f"{source}: cannot be read: {error.strerror or error}") from error
    perm = np.concatenate(pieces)
    if rows is not None and len(perm) != rows:
        raise wrong_length(str(path), len(perm), rows)
    return perm


def _shards(path: Path, manifest: Manifest | None) -> Sequence[tuple[str, int | None]]:
    """Names and rows from the manifest; without one, the files there are."""
    if manifest is not None and manifest.entries and manifest.entries[0].shards:
        shards = manifest.entries[0].shards
        for shard in shards:
            if Path(shard.name).name != shard.name:
                raise BadInput(f"{path}/{FOLDER_MANIFEST}: names a file outside the folder: {shard.name[:40]!r}")
        return [(shard.name, shard.rows) for shard in shards]
    found = sorted((file.name for file in path.glob(_PATTERN)), key=natural_key)
    if not found:
        raise BadInput(f"{path}: is a folder without {_PATTERN}; name a permutation file, or a folder of shards")
    return [(name, None) for name in found]


def _shard_rows(rows: int, entry: ManifestEntry) -> list[int]:
    """Rows of each file: a part each, or about SHARD_ROWS in whole batches."""
    if entry.partitions is not None:
        return list(entry.partitions.sizes)
    step = max(1, SHARD_ROWS // entry.batch_size) * entry.batch_size
    return [min(step, rows - start) for start in range(0, rows, step)]
