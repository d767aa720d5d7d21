"""What `gcbs mine` can be asked for; names and meanings are those of sentence-transformers' `mine_hard_negatives`."""

from dataclasses import asdict, dataclass
from typing import Any

from gcbs_cli.settings.plan import DEFAULT_BATCH_SIZE, DEFAULT_TEMPERATURE, check_batch_size, check_temperature
from gcbs_cli.system.errors import BadInput

DEFAULT_NEGATIVES = 3
DEFAULT_TRIALS = 5
SAMPLING = ("top", "random")
EXTRA_CANDIDATES = 10
"""Candidates for each negative wanted, where some may be refused for their score."""


@dataclass(frozen=True)
class MineSettings:
    """Which keys become a query's negatives.

    The candidates of a query are its hardest keys, its positives left out, then those that a score refuses:
    above `max_score`, below `min_score`, above positive − `absolute_margin` or above positive − `relative_margin` ·
    |positive|. Of the first `range_max` left, the first `range_min` are skipped, and `negatives` of the rest are
    taken: the hardest (`top`) or a seeded draw (`random`). `batch_size`, `temperature`, `trials`: of the loss shown.
    """

    negatives: int = DEFAULT_NEGATIVES
    range_min: int = 0
    range_max: int | None = None
    max_score: float | None = None
    min_score: float | None = None
    absolute_margin: float | None = None
    relative_margin: float | None = None
    sampling: str = "top"
    seed: int = 0
    batch_size: int = DEFAULT_BATCH_SIZE
    temperature: float = DEFAULT_TEMPERATURE
    trials: int = DEFAULT_TRIALS
    device: str = "auto"
    strip_rows: int | None = None

    def __post_init__(self) -> None:
        if self.negatives < 1:
            raise BadInput(f"--negatives {self.negatives}: expected at least 1")
        if self.range_min < 0:
            raise BadInput(f"--range-min {self.range_min}: expected 0 or more ranks to skip")
        if self.range_max is not None and self.range_max - self.range_min < self.negatives:
            raise BadInput(
                f"--range-max {self.range_max}: expected at least {self.range_min + self.negatives}, "
                f"--range-min {self.range_min} and {self.negatives} negatives"
            )
        if self.sampling not in SAMPLING:
            raise BadInput(f"--sampling {self.sampling}: expected {' or '.join(SAMPLING)}")
        if self.min_score is not None and self.max_score is not None and self.min_score > self.max_score:
            raise BadInput(f"--min-score {self.min_score}: expected at most --max-score {self.max_score}")
        if self.seed < 0:
            raise BadInput(f"--seed {self.seed}: expected 0 or more")
        if self.trials < 1:
            raise BadInput(f"--trials {self.trials}: expected at least 1 random order")
        if self.strip_rows is not None and self.strip_rows < 1:
            raise BadInput(f"--chunk-rows {self.strip_rows}: expected at least 1")
        check_temperature(self.temperature)

    @property
    def refuses_hard_ones(self) -> bool:
        """Whether a score can refuse candidates at the hard end, so that more of them are needed."""
        return any(value is not None for value in (self.max_score, self.absolute_margin, self.relative_margin))

    def last_rank(self, most_positives: int) -> int:
        """range_max, or what sentence-transformers takes for it; `most_positives`: of any query."""
        if self.range_max is not None:
            return self.range_max
        each = EXTRA_CANDIDATES if self.refuses_hard_ones else 1
        return self.range_min + self.negatives * each + most_positives

    def check_rows(self, rows: int) -> None:
        """Raises BadInput for what does not fit N rows."""
        check_batch_size(self.batch_size, rows)
        if self.range_min + self.negatives > rows - 1:
            raise BadInput(
                f"--negatives {self.negatives}: with --range-min {self.range_min} expected at most "
                f"{max(rows - 1 - self.range_min, 0):,}, for {rows:,} rows leave {rows - 1:,} negatives each"
            )

    def as_record(self) -> dict[str, Any]:
        """The settings as plain values."""
        return asdict(self)
