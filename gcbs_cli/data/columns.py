"""Chooses the column of a table, or the tensor of a file, that holds one side of the pairs."""

from dataclasses import dataclass
from typing import Final, Literal

from gcbs_cli.data.files import FileStamp, shown
from gcbs_cli.system.errors import BadInput, nearest

Side = Literal["x", "y"]

_USUAL_NAMES: Final = ("embedding", "embeddings")

_NAMED_COLUMNS: Final = 10
"""How many of a file's columns a message names."""


def listed(names: list[str]) -> str:
    """Return the columns of a file for a message."""
    some = ", ".join(shown(str(name)[:40]) for name in names[:_NAMED_COLUMNS]) or "none"
    return some if len(names) <= _NAMED_COLUMNS else f"{some} and {len(names) - _NAMED_COLUMNS} more"


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
        likely = [self.planned, self.side, *(() if self.holds_both else _USUAL_NAMES)]
        only = matrices[0] if len(matrices) == 1 and not self.holds_both else None
        name = self.wanted or next((name for name in likely if name in columns), only)
        if name is None or name not in columns:
            wanted = f"a {kind} {self.side} of embeddings" if self.wanted is None else f"{kind} {shown(self.wanted)}"
            both = self.wanted is None and self.holds_both
            right = "ones with --x-column and --y-column" if both else f"one with {self.option}"
            raise BadInput(
                f"{stamp.shown}: found the {kind}s {listed(columns)}, expected {wanted}"
                f"{nearest(self.wanted or '', columns)}; name the right {right}"
            )
        if columns.count(name) > 1:
            raise BadInput(
                f"{stamp.shown}: found {columns.count(name)} {kind}s {shown(name)}, expected one; rename them"
            )
        return name
