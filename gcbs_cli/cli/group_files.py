"""The file of --groups: which rows must never share a batch, and what a manifest keeps of it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.cli.output import Output
from gcbs_cli.data.row_values import check_row_count, read_row_ids
from gcbs_cli.plan_file.manifest import ManifestEntry, permutation_hash
from gcbs_cli.system.errors import BadInput


@dataclass(frozen=True)
class GroupsFile:
    """--groups and --groups-column."""

    path: str | None = None
    column: str | None = None

    @property
    def given(self) -> bool:
        """Whether a file was named."""
        return self.path is not None

    def read(self, rows: int) -> NDArray[np.int64] | None:
        """(N,) group numbers; None where no file was named. Raises BadInput unless it has N rows."""
        if self.path is None:
            return None
        ids = read_row_ids(self.path, "--groups", self.column)
        check_row_count(len(ids), rows, self.path, "--groups")
        return ids

    def words(self) -> list[str]:
        """The words of a command line that name the same groups."""
        named = (("--groups", self.path), ("--groups-column", self.column))
        return [word for name, value in named if value is not None for word in (name, value)]

    def as_record(self, ids: NDArray[np.int64] | None) -> dict[str, str | None]:
        """The file for the manifest, with the hash of the groups that it held; nothing where none was named."""
        if self.path is None or ids is None:
            return {}
        return {"groups": self.path, "groups_column": self.column, "groups_hash": permutation_hash(ids)}


def planned_groups(entry: ManifestEntry | None, rows: int, out: Output) -> NDArray[np.int64] | None:
    """(N,) the groups that a plan kept apart, read again from the file that its manifest names.

    None where it names none, and, with one warning, where the file no longer says the same.
    """
    record = entry.method_settings if entry else {}
    path, column = record.get("groups"), record.get("groups_column")
    if not isinstance(path, str) or "groups_hash" not in record:
        return None
    try:
        ids = GroupsFile(path, column if isinstance(column, str) else None).read(rows)
        changed = ids is None or permutation_hash(ids) != record["groups_hash"]
        reason = f"--groups {path}: holds other groups than when the plan was made"
    except BadInput as error:
        ids, changed, reason = None, True, str(error)
    if not changed:
        return ids
    out.warning(f"{reason}; the report leaves the groups out: name the file with --groups to count them")
    return None
