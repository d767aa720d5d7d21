"""How people see a figure of a report: its words, its form, and where it stands."""

from dataclasses import dataclass
from typing import Any, Literal

SHARE = "{:.1%}"
COUNT = "{:,.0f}"
ROUGH = "{:z.3f}"


@dataclass(frozen=True)
class Figure:
    """One figure of a report; it is None where there is no plan, or where it would be 0 / 0.

    path: its place in the JSON report. words: its name in tables; heading: the same above a narrow column.
    better: which way a plan should move it. show: views that have it beside JSON and the page: table (one report), many
    (one line a report), history, compare, trial (compare --train). random, spread: paths of the mean and the standard
    deviation of the same figure over random orders. meaning: what it is, in a sentence.
    """

    path: str
    words: str
    format: str = "{:.4f}"
    better: Literal["up", "down"] | None = None
    show: str = "table"
    heading: str = ""
    random: str | None = None
    spread: str | None = None
    meaning: str = ""

    @property
    def short(self) -> str:
        """The name above a column."""
        return self.heading or self.words

    def text(self, value: Any) -> str:
        """The value for people: – for None, an estimate with half the width of its interval."""
        if value is None:
            return "–"
        if hasattr(value, "low"):
            return f"{self.format.format(value.value)} ± {self.format.format(value.value - value.low)}"
        return self.format.format(value)
