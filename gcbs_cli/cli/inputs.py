"""Open and read what a command was given: paired embeddings, and files with a value for each row."""

import sys
from collections.abc import Sequence
from typing import Any

from gcbs_cli.cli.output import Output
from gcbs_cli.data import row_values
from gcbs_cli.data.files import list_files, shown
from gcbs_cli.data.opening import open_pair
from gcbs_cli.data.reading import PairStream
from gcbs_cli.data.remote import is_remote
from gcbs_cli.data.row_values import TEXT_COLUMNS, ids_of, read_row_values, text_of
from gcbs_cli.plan_file.manifest import Manifest, manifest_path, permutation_hash
from gcbs_cli.plan_file.writing import identity
from gcbs_cli.settings.model import Settings
from gcbs_cli.settings.others import Columns, Compare, Inputs, PairTexts, Plan
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput

INPUTS = ("x", "y", "data", "groups", "text", "positives", "labels", "texts", "model", "perm", "config")
"""Fields of settings that name what is read."""


def files_read(settings: Settings, manifest: Manifest | None = None) -> dict[object, str]:
    """Every file that a call reads, by what is the same for all of its names, and how it was named.

    manifest: of the plan, whose groups are read again. Raises BadInput for folders and patterns that cannot be read.
    """
    names = [getattr(settings, field, None) for field in INPUTS]
    if manifest is not None:
        names.append(manifest.method_settings.get("groups"))
    files = {}
    for name in names:
        if isinstance(name, str) and not is_remote(name):
            for path in (*list_files(name), str(manifest_path(name))):
                files[identity(path)] = name
    return files


def command_line() -> list[str]:
    """The words of this command for a manifest or a page; addresses without what gives access to them."""
    return ["gcbs", *map(shown, sys.argv[1:])]


def open_inputs(inputs: Inputs, out: Output, manifest: Manifest | None = None) -> PairStream:
    """Open both sides, check headers, and say in which order shards are read.

    manifest: of a plan, whose columns and normalization count unless others are named.
    """
    planned: tuple[str | None, str | None] = (None, None)
    normalize = inputs.normalize
    if manifest is not None:
        planned = (manifest.inputs.x.column, manifest.inputs.y.column)
        if "normalize" not in inputs.model_fields_set:
            normalize = manifest.normalize
    sources = open_pair(inputs.x, inputs.y, **dict(inputs.only(Columns)), planned=planned)
    stream = PairStream(*sources, normalize=normalize)
    for source in stream.sources:
        say_order(source.name, source.paths, out)
    return stream


def say_order(name: str, paths: Sequence[str], out: Output) -> None:
    """Say in which order the files of a name are read, where there are several."""
    if len(paths) > 1:
        out.note(f"{name}: {len(paths)} files, read from {paths[0]} to {paths[-1]}")


def read_values(settings: Settings, name: str, rows: int) -> list[Any] | None:
    """The value of each row, from the file and column of an option, if any. Raises BadInput unless there are N."""
    path, column = getattr(settings, name), getattr(settings, f"{name}_column")
    return None if path is None else read_row_values(path, f"--{name}", column, rows)


def read_ids(settings: Settings, name: str, rows: int) -> Ints | None:
    """(N,) a number for each of these values, such as those of --groups."""
    values = read_values(settings, name, rows)
    return None if values is None else ids_of(values)


def read_row_facts(settings: Plan | Compare, rows: int) -> dict[str, Any]:
    """The groups of the rows, and their texts for the method words."""
    values = read_values(settings, "text", rows)
    texts = None if values is None else list(map(text_of, values))
    return {"groups": read_ids(settings, "groups", rows), "texts": texts}


def texts_of_rows(settings: PairTexts, stream: PairStream, rows: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """The texts of both sides of these rows, from --texts or from the columns that gcbs embed writes; {} for none."""
    if settings.texts is None:
        x, y = (row_values.read_ids(stream.x, rows, usual=column) for column in TEXT_COLUMNS)
        return {row: (x.get(row, ""), y.get(row, "")) for row in x | y}
    x_values = read_row_values(settings.texts, "--x-text", settings.x_text, stream.rows)
    y_values = read_row_values(settings.texts, "--y-text", settings.y_text, stream.rows)
    return {row: (text_of(x_values[row]), text_of(y_values[row])) for row in rows}


def planned_groups(manifest: Manifest | None, rows: int, out: Output) -> Ints | None:
    """(N,) the groups that a plan kept apart, read again from the file that its manifest names.

    None where it names none, and, with one warning, where the file no longer says the same.
    """
    record = manifest.method_settings if manifest else {}
    path = record.get("groups")
    if not isinstance(path, str) or "groups_hash" not in record:
        return None
    reason = f"--groups {path}: holds different groups from when the plan was made"
    try:
        ids = ids_of(read_row_values(path, "--groups", record.get("groups_column"), rows))
        if permutation_hash(ids) == record["groups_hash"]:
            return ids
    except BadInput as error:
        reason = str(error)
    out.warn(f"{reason}; the report leaves the groups out: name the file with --groups to count them")
    return None
