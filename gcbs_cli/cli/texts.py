"""The texts of the rows, for the planning method that groups by words."""

from collections.abc import Sequence
from dataclasses import dataclass

from gcbs_cli.data.row_values import check_row_count, read_row_texts
from gcbs_cli.system.errors import BadInput

METHOD = "words"


@dataclass(frozen=True)
class TextOptions:
    """--text and --text-column."""

    path: str | None = None
    column: str | None = None

    def check(self, methods: Sequence[str]) -> None:
        """Raises BadInput when the methods and the option do not belong together."""
        if METHOD in methods and self.path is None:
            raise BadInput("--method words: expected the rows' texts; give them with --text FILE")
        if METHOD not in methods and (self.path, self.column) != (None, None):
            raise BadInput(f"--text: goes with --method {METHOD}, not {', '.join(methods)}")

    def read(self, rows: int) -> dict[str, list[str]]:
        """What the method is given: the texts of all N rows, or nothing. Raises BadInput unless there are N."""
        if self.path is None:
            return {}
        texts = read_row_texts(self.path, "--text", self.column)
        check_row_count(len(texts), rows, self.path, "--text")
        return {"texts": texts}

    def words_for(self, method: str) -> list[str]:
        """The words of a command line that give the same texts to a method; none for one that takes none."""
        named = (("--text", self.path), ("--text-column", self.column)) if method == METHOD else ()
        return [word for name, value in named if value is not None for word in (name, value)]

    def as_record(self) -> dict[str, str | None]:
        """The option for the manifest; nothing where it was not given."""
        return {} if self.path is None else {"text": self.path, "text_column": self.column}
