"""What a folder holds: shards, a Parquet dataset with folders of partitions, or a dataset that `datasets` saved."""

import json
import os
from typing import Any, Final

from gcbs_cli.data.files import one_line, shown
from gcbs_cli.data.shards import list_directory, natural_key
from gcbs_cli.system.errors import BadInput

_SPLITS: Final = "dataset_dict.json"
_STATE: Final = "state.json"
_INFO: Final = "dataset_info.json"


def list_folder(path: str) -> list[str]:
    """The files of a folder in the order of their rows. Raises BadInput, for a DatasetDict as well: it has splits."""
    if os.path.isfile(os.path.join(path, _SPLITS)):
        splits = _read_json(os.path.join(path, _SPLITS)).get("splits", [])
        first = os.path.join(path, str(splits[0])) if splits else path
        raise BadInput(f"{shown(path)}: found a dataset of splits {splits}, expected one split; give {shown(first)}")
    if os.path.isfile(os.path.join(path, _STATE)) and os.path.isfile(os.path.join(path, _INFO)):
        return _saved_dataset(path)
    files = list_directory(path)
    return _partitions(path) if any(os.path.isdir(file) for file in files) else files


def _saved_dataset(path: str) -> list[str]:
    """The files that `datasets.Dataset.save_to_disk` wrote, in the order that its state names."""
    state = _read_json(os.path.join(path, _STATE))
    files = state.get("_data_files")
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise BadInput(
            f"{shown(path)}: found a dataset with an index, expected its rows; flatten_indices() and save it"
        )
    if (
        not isinstance(files, list)
        or not all(isinstance(file, dict) and "filename" in file for file in files)
        or not files
    ):
        raise BadInput(
            f"{shown(path)}: found no files named in {_STATE}, expected a dataset of save_to_disk; save it again"
        )
    return [os.path.join(path, os.path.basename(str(file["filename"]))) for file in files]


def _partitions(path: str) -> list[str]:
    """All Parquet files below, in natural order of their paths, without names that start with . or _."""
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            if name.startswith((".", "_")):
                continue
            if not name.lower().endswith(".parquet"):
                place = os.path.relpath(os.path.join(folder, name), path)
                raise BadInput(f"{shown(path)}: found {shown(place)} in it, expected .parquet files alone in folders")
            found.append(os.path.join(folder, name))
    if not found:
        raise BadInput(f"{shown(path)}: found folders without files, expected Parquet files; check the path")
    return sorted(found, key=natural_key)


def _read_json(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError) as error:
        raise BadInput(f"{shown(path)}: found that it cannot be read ({one_line(error)}), expected JSON") from None
    return content if isinstance(content, dict) else {}
