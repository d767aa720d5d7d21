"""Lists the files of a folder or pattern in the order of their rows: shards, partitions, a saved dataset."""

import glob
import json
import os
import re
from typing import Final

from gcbs_cli.data.files import one_line, open_file, shown
from gcbs_cli.system.errors import BadInput

_STATE: Final = "state.json"


def list_files(path: str, *, below: bool = False) -> list[str]:
    """Return the files of a directory or glob pattern in natural order; none where the path names one file.

    Hidden ones (a name that starts with . or _) are left out. below: those of the directories in it too, and of a
    dataset of `save_to_disk` those that its state names, in that order. Raises BadInput where there are none.
    """
    if not os.path.isdir(path):
        return list_pattern(path) if glob.has_magic(path) and not os.path.lexists(path) else []
    inside = set(os.listdir(path)) if below and os.access(path, os.R_OK) else set()
    if "dataset_dict.json" in inside:
        raise BadInput(f"{shown(path)}: found a dataset of splits, expected one split; give the folder of that one")
    if {_STATE, "dataset_info.json"} <= inside:
        return _saved_dataset(path)
    files: list[str] = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if below and not name.startswith((".", "_"))]
        files += [os.path.join(folder, name) for name in names if not name.startswith((".", "_"))]
    if not files:
        raise BadInput(f"{shown(path)}: found an empty directory, expected files of embeddings; check the path")
    return sorted(files, key=natural_key)


def list_pattern(pattern: str) -> list[str]:
    """Return the files that a glob pattern matches in natural order, without hidden ones."""
    files = glob.glob(pattern, recursive=True)
    if not files:
        raise BadInput(f"{shown(pattern)}: found no file that matches, expected files of embeddings; check the pattern")
    return sorted(files, key=natural_key)


def natural_key(path: str) -> tuple[list[tuple[str, int]], str]:
    """Return a sort key that takes the digits in a path as numbers: part-2 before part-10."""
    parts = re.split(r"([0-9]+)", path)
    return [(text, int(digits)) for text, digits in zip(parts[::2], [*parts[1::2], "0"], strict=True)], path


def _saved_dataset(path: str) -> list[str]:
    """Return the files that `datasets.Dataset.save_to_disk` wrote, in the order that its state names."""
    try:
        with open_file(os.path.join(path, _STATE)) as file:
            names = [os.path.basename(entry["filename"]) for entry in json.load(file)["_data_files"]]
        if not names:
            raise ValueError("none")
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise BadInput(
            f"{shown(path)}: found no names of files in {_STATE} ({one_line(error)}), expected a dataset of"
            " save_to_disk; save it again"
        ) from None
    return [os.path.join(path, name) for name in names]
