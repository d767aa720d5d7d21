"""Chooses the column of a table, or the tensor of a file, that holds one side of the pairs."""

import shlex
from dataclasses import dataclass
from typing import Final, Literal

from gcbs_cli.data.files import FileStamp, shown
from gcbs_cli.system.errors import BadInput

Side = Literal["x", "y"]

_SIDES: Final = ("x", "y")

_USUAL_NAMES: Final = ("embedding", "embeddings")

_NAMED_COLUMNS: Final = 10
"""How many of a file's columns a message names."""


@dataclass(frozen=True)
class ColumnChoice:
    """Which side is wanted, the column that the user named for it, and whether the file holds the other side too.

    planned: the column that a plan was made from; taken where nothing was named and the file has it.
    """

    side: Side
    wanted: str | None = None
    holds_both: bool = False
    planned: str | None = None

    @property
    def option(self) -> str:
        """The command-line option that names the column."""
        return f"--{self.side}-column"

    def choose(self, stamp: FileStamp, columns: list[str], matrices: list[str], kind: str) -> str:
        """Return the name of the column to read.

        columns: all names in the file; matrices: those that can hold embeddings; kind: "column" or "tensor". The order
        of preference: the one the user named, the one planned from, the one named like the side and, in a file for this
        side alone, a usual name or the only candidate. Raises BadInput that names what the file has and the option to
        use.
        """
        name = self._preferred(columns, matrices)
        expected = f"{kind} {shown(self.wanted)}" if self.wanted is not None else f"a {kind} {self.side} of embeddings"
        if name is None or name not in columns:
            found = _listed(columns) if columns else "none"
            raise BadInput(f"{stamp.shown}: found the {kind}s {found}, expected {expected}; {self._advice(matrices)}")
        if columns.count(name) > 1:
            raise BadInput(
                f"{stamp.shown}: found {columns.count(name)} {kind}s {shown(name)}, expected one; rename them"
            )
        return name

    def _advice(self, matrices: list[str]) -> str:
        """Both options at once where neither side was found, with the names to give where only two can be meant."""
        if self.wanted is not None or not self.holds_both or self.side == "y":
            return f"name the right one with {self.option}"
        if len(matrices) == len(_SIDES):
            x, y = (shlex.quote(shown(name)) for name in matrices)
            return f"name the right ones, such as --x-column {x} --y-column {y}"
        return "name the right ones with --x-column and --y-column"

    def _preferred(self, columns: list[str], matrices: list[str]) -> str | None:
        if self.wanted is not None:
            return self.wanted
        if self.planned in columns:
            return self.planned
        if self.side in columns:
            return self.side
        if self.holds_both:
            return None
        usual = [name for name in _USUAL_NAMES if name in columns]
        if usual:
            return usual[0]
        return matrices[0] if len(matrices) == 1 else None


def _listed(names: list[str]) -> str:
    some = ", ".join(shown(name[:40]) for name in names[:_NAMED_COLUMNS])
    return some if len(names) <= _NAMED_COLUMNS else f"{some} and {len(names) - _NAMED_COLUMNS} more"
