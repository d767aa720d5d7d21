"""What a report can be asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.reports.bsc import RowLabels
from gcbs_cli.reports.cross_check import MOST_ROWS_IN_FULL
from gcbs_cli.reports.losses import Loss, LossKind
from gcbs_cli.reports.partition_cost import PlannedParts
from gcbs_cli.settings.plan import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_TEMPERATURE,
    GraphSettings,
    check_batch_size,
    check_temperature,
)
from gcbs_cli.system.errors import BadInput


@dataclass(frozen=True)
class ReportSettings:
    """What a report covers. `fn_margin`: suspected false negatives reach this share of a positive's similarity; with
    `fn_absolute` they reach it less that number instead. `groups`: (N,) ids; rows with the same one are suspected too.

    `verify`: the plan's gap and the entries above the threshold are computed once more, whole, in float64.
    `max_memory`: bytes, most of what is free by default. `labels`: the positives of the loss `bsc`. `fn_top`: pairs of
    a row with one of its p hardest columns are counted; `duplicates`: those with equal x or equal y.
    """

    batch_sizes: Sequence[int] = (DEFAULT_BATCH_SIZE,)
    temperatures: Sequence[float] = (DEFAULT_TEMPERATURE,)
    losses: Sequence[Loss] = (Loss(LossKind.SYMMETRIC),)
    graph: GraphSettings = field(default_factory=GraphSettings)
    trials: int = 20
    seed: int = 0
    fn_margin: float = 0.95
    drop_last: bool = False
    device: str = "auto"
    tile_rows: int | None = None
    max_memory: int | None = None
    verify: bool = False
    labels: RowLabels = field(default_factory=RowLabels)
    fn_absolute: float | None = None
    groups: NDArray[np.int64] | None = None
    parts: PlannedParts | None = None
    """Of a plan that was made in parts and whose batches were not shuffled over them."""
    fn_top: int = 0
    duplicates: bool = False

    def check(self, rows: int) -> None:
        """Raises BadInput for what does not fit N rows."""
        for batch_size in self.batch_sizes:
            check_batch_size(batch_size, rows)
        for temperature in self.temperatures:
            check_temperature(temperature)
        if self.trials < 1:
            raise BadInput(
                f"--trials {self.trials}: expected at least 1; random batches are what a plan is held against"
            )
        if not 0.0 <= self.fn_margin <= 2.0:
            raise BadInput(f"--fn-margin {self.fn_margin}: expected a share of the positive's similarity, such as 0.95")
        if self.fn_top < 0:
            raise BadInput(f"--fn-top {self.fn_top}: expected 0 or more ranks")
        if self.groups is not None and self.groups.shape != (rows,):
            raise BadInput(f"groups: expected one id for each of the {rows:,} rows, got shape {self.groups.shape}")
        if self.seed < 0:
            raise BadInput(f"--seed {self.seed}: expected 0 or more")
        if self.verify and rows > MOST_ROWS_IN_FULL:
            raise BadInput(
                f"--verify: found {rows:,} rows, expected at most {MOST_ROWS_IN_FULL:,}, for it computes all pairs in "
                "float64; without it the report checks a sample of the rows"
            )
        if self.verify and any(loss.has_own_terms for loss in self.losses):
            raise BadInput("--verify: goes with --loss infonce, symmetric and simclr, which a float64 loop confirms")
        self.graph.requested_quantile(rows)
