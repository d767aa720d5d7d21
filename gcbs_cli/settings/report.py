"""What a report can be asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.reports.bsc import RowLabels
from gcbs_cli.reports.losses import Loss, LossKind
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
    """What a report covers. `fn_margin`: suspected false negatives reach this share of a positive's similarity.
    `groups`: (N,) ids; rows with the same one are suspected too. `max_memory`: bytes, most of what is free by default.
    `labels`: the positives of the loss `bsc`.
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
    labels: RowLabels = field(default_factory=RowLabels)
    groups: NDArray[np.int64] | None = None
    part_sizes: Sequence[int] | None = None
    """Rows of each part, in plan order, of a plan that was made in parts and whose batches stayed in them."""

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
        if self.groups is not None and self.groups.shape != (rows,):
            raise BadInput(f"groups: expected one id for each of the {rows:,} rows, got shape {self.groups.shape}")
        if self.seed < 0:
            raise BadInput(f"--seed {self.seed}: expected 0 or more")
        self.graph.requested_quantile(rows)
