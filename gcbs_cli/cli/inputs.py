"""Open and read the paired embeddings that a command was given."""

import sys
from dataclasses import dataclass

from gcbs_cli.cli.output import Output
from gcbs_cli.data import EmbeddingSource, UnitRows, open_pair, read_unit_rows
from gcbs_cli.data.files import FileStamp, check_still_the_same
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.remote import without_secrets
from gcbs_cli.plan_file.manifest import InputsRecord

SHARDS_SHOWN = 12


def command_line() -> list[str]:
    """The words of this command for a manifest or a page; addresses without what gives access to them."""
    return ["gcbs", *map(without_secrets, sys.argv[1:])]


@dataclass(frozen=True)
class InputOptions:
    """What says where the embeddings are and how to read them."""

    x: str
    y: str | None
    x_column: str | None = None
    y_column: str | None = None
    dtype: str | None = None
    normalize: bool = True

    def words(self) -> list[str]:
        """The words of a command line that name the same input."""
        named = (("--x-column", self.x_column), ("--y-column", self.y_column), ("--dtype", self.dtype))
        words = [self.x, *([self.y] if self.y else [])]
        words += [word for name, value in named if value is not None for word in (name, value)]
        return words if self.normalize else [*words, "--no-normalize"]

    def open(self, planned: InputsRecord | None = None) -> tuple[EmbeddingSource, EmbeddingSource]:
        """Open both sides and check their headers; the columns are those planned from unless named. Raises BadInput."""
        columns = (planned.x.column, planned.y.column) if planned else (None, None)
        return open_pair(
            self.x, self.y, x_column=self.x_column, y_column=self.y_column, dtype=self.dtype, planned=columns
        )


@dataclass(frozen=True)
class ReadPair:
    """Both sides, read and checked."""

    x: UnitRows
    y: UnitRows
    stamps: tuple[FileStamp, ...] = ()

    def check_unchanged(self) -> None:
        """Raise BadInput when a file is no longer what was read: by its size, time and identity."""
        for stamp in self.stamps:
            check_still_the_same(stamp)

    @property
    def unit(self) -> PairedRows:
        """The unit rows for the numerics."""
        return PairedRows(self.x.values, self.y.values)


def read_pair(sources: tuple[EmbeddingSource, EmbeddingSource], options: InputOptions, output: Output) -> ReadPair:
    """Read both sides as unit rows, and say in which order shards were taken."""
    for source in sources:
        show_order(source, output)
    x, y = (read_unit_rows(source, normalize=options.normalize) for source in sources)
    return ReadPair(x, y, tuple(stamp for source in sources for stamp in source.stamps))


def show_order(source: EmbeddingSource, output: Output) -> None:
    """Say in which order the files of a side are read, where there are several."""
    if len(source.paths) > 1:
        shown = ", ".join(source.paths[:SHARDS_SHOWN])
        more = f", … ({len(source.paths)} files)" if len(source.paths) > SHARDS_SHOWN else ""
        output.note(f"{source.name}: read in this order: {shown}{more}")
