"""The settings of `gcbs mine`; names and meanings are those of sentence-transformers' `mine_hard_negatives`."""

from typing import Literal, Self

from pydantic import model_validator

from gcbs_cli.settings.model import Settings, option
from gcbs_cli.settings.plan import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_TEMPERATURE,
    Seed,
    Temperature,
    Trials,
    WorkSettings,
    check_batch_size,
)
from gcbs_cli.system.errors import BadInput

EXTRA_CANDIDATES = 10
"""Candidates for each negative, where some may be refused for their score."""


class NegativeSettings(Settings, panel="Which negatives"):
    """Which keys become a query's negatives.

    The candidates of a query are its hardest keys, its positives left out, then those that a score refuses. Of the
    first `range_max` left, the first `range_min` are skipped, and `negatives` of the rest are taken.
    """

    negatives: int = option(3, "-l", ge=1)
    """Negatives for each row."""
    range_min: int = option(0, ge=0)
    """Number of the hardest candidates to skip."""
    range_max: int | None = None
    """Take no candidate beyond this rank."""
    max_score: float | None = None
    """Refuse candidates with a similarity above this."""
    min_score: float | None = None
    """Refuse candidates with a similarity below this."""
    absolute_margin: float | None = None
    """Refuse candidates with a similarity above positive − margin."""
    relative_margin: float | None = None
    """Refuse candidates with a similarity above positive − margin · |positive|, such as 0.05."""
    sampling: Literal["top", "random"] = "top"
    """top: the hardest candidates; random: a seeded draw from the first --range-max."""

    @model_validator(mode="after")
    def _check_ranks(self) -> Self:
        if self.range_max is not None and self.range_max - self.range_min < self.negatives:
            raise BadInput(
                f"--range-max {self.range_max}: expected at least {self.range_min + self.negatives}, "
                f"the sum of --range-min {self.range_min} and --negatives {self.negatives}"
            )
        if self.min_score is not None and self.max_score is not None and self.min_score > self.max_score:
            raise BadInput(f"--min-score {self.min_score}: expected at most --max-score {self.max_score}")
        return self

    def last_rank(self, most_positives: int) -> int:
        """range_max, or what sentence-transformers takes for it; `most_positives`: of any query."""
        if self.range_max is not None:
            return self.range_max
        refuses_hard_ones = {self.max_score, self.absolute_margin, self.relative_margin} != {None}
        each = EXTRA_CANDIDATES if refuses_hard_ones else 1
        return self.range_min + self.negatives * each + most_positives


class ShownLossSettings(Settings, panel="The loss with them"):
    """The loss that is shown with the negatives."""

    batch_size: int = option(DEFAULT_BATCH_SIZE, "-k", ge=2)
    """Pairs in one loss."""
    temperature: Temperature = DEFAULT_TEMPERATURE
    trials: Trials = 5
    """Number of random orders to average over."""


class MineSettings(NegativeSettings, ShownLossSettings, WorkSettings):
    """Which keys become a query's negatives, and the loss that is shown with them."""

    seed: Seed = 0

    def check_rows(self, rows: int) -> None:
        """Raises BadInput for what does not fit N rows."""
        check_batch_size(self.batch_size, rows)
        others = rows - 1
        if self.range_min + self.negatives > others:
            raise BadInput(
                f"--negatives {self.negatives}: expected at most {max(others - self.range_min, 0):,} with --range-min "
                f"{self.range_min}, since each of the {rows:,} rows has {others:,} negatives"
            )
