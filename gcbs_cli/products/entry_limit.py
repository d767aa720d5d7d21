"""Stop a pass that finds more than there is room for: a sample can misjudge data with many equal rows."""

from dataclasses import dataclass

from gcbs_cli.system.errors import BadInput


@dataclass
class EntryLimit:
    """How many entries a pass may find. `advice`: what to do, for the error's end."""

    most: int
    advice: str
    found: int = 0

    def add(self, entries: int) -> None:
        """Count entries. Raises BadInput once they are too many."""
        self.found += entries
        if self.found > self.most:
            raise BadInput(
                f"the pass has found {self.found:,} entries and is not at its end, and there is room for "
                f"{self.most:,}; {self.advice}"
            )
