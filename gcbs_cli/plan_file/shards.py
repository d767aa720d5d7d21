"""A permutation as a folder: `part-00000.npy` … in plan order and one `manifest.json`, there whole or not at all."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.files import shown
from gcbs_cli.data.folders import natural_key
from gcbs_cli.plan_file import formats, writing
from gcbs_cli.plan_file.manifest import FOLDER_MANIFEST, ManifestEntry, ShardRecord, manifest_text, read_manifest
from gcbs_cli.system.errors import BadInput

SHARD_ROWS: Final = 1 << 24
"""Rows of a file, about, where the plan has no parts: 128 MiB."""
_PATTERN: Final = "part-*.npy"


def is_folder(path: Path | str) -> bool:
    """Return whether a plan's name means a folder: it ends in a slash, or there is one."""
    return str(path).endswith("/") or os.path.isdir(path)


def check_folder(path: Path, *, force: bool) -> None:
    """Raise BadInput where the folder cannot be written, exists and `force` is false, or is there and is no plan."""
    if not os.path.isdir(path):
        writing.check_outputs([path], force=force)
        return
    place = Path(os.path.realpath(path))
    writing.check_outputs([place.parent / f"{place.name}.gcbs"], force=True)
    if not force:
        raise BadInput(f"{shown(str(path))}: exists; use --force to replace it")
    others = [name for name in os.listdir(path) if name != FOLDER_MANIFEST and not Path(name).match(_PATTERN)]
    if others or not (path / FOLDER_MANIFEST).is_file():
        what = f"holds {shown(others[0])}" if others else f"has no {FOLDER_MANIFEST}"
        raise BadInput(
            f"{shown(str(path))}: is a folder and no plan ({what}); name another one, it will not be replaced"
        )


def write_folder(path: Path, perm: NDArray[np.int64], entry: ManifestEntry) -> None:
    """Write the shards and the manifest; an older plan in that folder goes in the same step.

    Raises GcbsError when the disk does not take it; then what was there is there still.
    """
    step = max(1, SHARD_ROWS // entry.batch_size) * entry.batch_size
    sizes = entry.partitions.sizes if entry.partitions is not None else [step] * -(-len(perm) // step)
    shards: list[ShardRecord] = []
    with writing.folder(path) as folder:
        for piece in np.split(perm, np.cumsum(sizes)[:-1]):
            shards.append(ShardRecord(name=f"part-{len(shards):05d}.npy", rows=len(piece)))
            writing.write(folder / shards[-1].name, partial(formats.write_npy, perm=piece))
        writing.write(folder / FOLDER_MANIFEST, manifest_text([entry.model_copy(update={"shards": shards})]))


def read_folder(path: Path) -> NDArray[np.int64]:
    """Read the whole permutation (N,) int64. Raises BadInput for files that are missing, damaged or not as long."""
    pieces = []
    for name, rows in _shards(path):
        pieces.append(formats.read_npy(os.path.join(path, name)))
        if rows is not None and len(pieces[-1]) != rows:
            raise BadInput(f"{shown(str(path))}/{name}: {len(pieces[-1])} indices, {rows} in the manifest; plan again")
    return np.concatenate(pieces)


def _shards(path: Path) -> Iterator[tuple[str, int | None]]:
    """Names and rows from the manifest; without one, the files there are."""
    manifest = read_manifest(path)
    named = manifest.entries[0].shards if manifest is not None and manifest.entries else None
    for shard in named or ():
        if os.path.basename(shard.name) != shard.name:
            raise BadInput(
                f"{shown(str(path))}/{FOLDER_MANIFEST}: names a file outside the folder: {shown(shard.name[:40])}"
            )
        yield shard.name, shard.rows
    found = [] if named else sorted((file.name for file in path.glob(_PATTERN)), key=natural_key)
    if not named and not found:
        raise BadInput(
            f"{shown(str(path))}: is a folder without {_PATTERN}; name a permutation file, or a folder of shards"
        )
    yield from ((name, None) for name in found)
