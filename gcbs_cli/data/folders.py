"""Lists the files of a folder or pattern in the order of their rows: shards, partitions, a saved dataset."""

import glob
import json
import os
import re
from typing import Any, Final

from gcbs_cli.data.files import one_line, shown, unreadable
from gcbs_cli.system.errors import BadInput

_SPLITS: Final = "dataset_dict.json"
_STATE: Final = "state.json"
_INFO: Final = "dataset_info.json"


def list_folder(path: str) -> list[str]:
    """Return the files of a folder of embeddings in the order of their rows.

    Raises BadInput, for a DatasetDict as well: it has splits.
    """
    if os.path.isfile(os.path.join(path, _SPLITS)):
        splits = _read_json(os.path.join(path, _SPLITS)).get("splits")
        names = [str(split) for split in splits] if isinstance(splits, list) else []
        first = shown(os.path.join(path, *names[:1]))
        raise BadInput(f"{shown(path)}: found a dataset of splits {names}, expected one split; give {first}")
    if os.path.isfile(os.path.join(path, _STATE)) and os.path.isfile(os.path.join(path, _INFO)):
        return _saved_dataset(path)
    files = list_directory(path)
    return _partitions(path) if any(os.path.isdir(file) for file in files) else files


def list_directory(path: str) -> list[str]:
    """Return the files of a directory in natural order, without hidden ones (a name that starts with . or _)."""
    try:
        names = [name for name in os.listdir(path) if not _hidden(name)]
    except OSError as error:
        raise unreadable(path, error) from None
    if not names:
        raise BadInput(f"{shown(path)}: found an empty directory, expected files of embeddings; check the path")
    return sorted((os.path.join(path, name) for name in names), key=natural_key)


def list_pattern(pattern: str) -> list[str]:
    """Return the files that a glob pattern matches in natural order, without hidden ones."""
    try:
        files = glob.glob(pattern, recursive=True)
    except (OSError, ValueError, re.error) as error:
        raise BadInput(f"{shown(pattern)}: found a pattern that cannot be used ({error}); check it") from None
    if not files:
        raise BadInput(f"{shown(pattern)}: found no file that matches, expected files of embeddings; check the pattern")
    return sorted(files, key=natural_key)


def natural_key(path: str) -> tuple[list[tuple[str, int]], str]:
    """Return a sort key that takes the digits in a path as numbers: part-2 before part-10."""
    parts = re.split(r"([0-9]+)", path)
    return [(text, int(digits)) for text, digits in zip(parts[::2], [*parts[1::2], "0"], strict=True)], path


def _saved_dataset(path: str) -> list[str]:
    """Return the files that `datasets.Dataset.save_to_disk` wrote, in the order that its state names."""
    state = _read_json(os.path.join(path, _STATE))
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise BadInput(
            f"{shown(path)}: found a dataset with an index, expected its rows; flatten_indices() and save it"
        )
    files = state.get("_data_files")
    named = files if isinstance(files, list) else []
    names = [file["filename"] for file in named if isinstance(file, dict) and isinstance(file.get("filename"), str)]
    if not names or len(names) < len(named):
        raise BadInput(
            f"{shown(path)}: found no files named in {_STATE}, expected a dataset of save_to_disk; save it again"
        )
    return [os.path.join(path, os.path.basename(name)) for name in names]


def _partitions(path: str) -> list[str]:
    """Return all Parquet files below, in natural order of their paths, without names that start with . or _."""
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not _hidden(name)]
        for name in names:
            if _hidden(name):
                continue
            if not name.lower().endswith(".parquet"):
                place = os.path.relpath(os.path.join(folder, name), path)
                raise BadInput(f"{shown(path)}: found {shown(place)} in it, expected .parquet files alone in folders")
            found.append(os.path.join(folder, name))
    if not found:
        raise BadInput(f"{shown(path)}: found folders without files, expected Parquet files; check the path")
    return sorted(found, key=natural_key)


def _hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _read_json(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{shown(path)}: found that it cannot be read ({one_line(error)}), expected JSON") from None
    return content if isinstance(content, dict) else {}
