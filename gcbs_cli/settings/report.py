"""The settings of a report."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from gcbs_cli.settings.model import Listed, Settings, option
from gcbs_cli.settings.plan import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_MARGIN,
    DEFAULT_TEMPERATURE,
    Margin,
    PlanSettings,
    Seed,
    Temperature,
    ThresholdSettings,
    Trials,
    WorkSettings,
    check_batch_size,
)

LEAST_BATCHES = 30
"""Least number of batches in a report on a sample: fewer say little about how batches differ."""


LossKind = Literal["infonce", "symmetric", "simclr", "bsc", "triplet"]
"""infonce: x→y; symmetric: mean of x→y and y→x (CLIP); simclr: NT-Xent over the 2N views; bsc: symmetric with several
positives a row; triplet: with the hardest negative.
"""
QueueMode = Literal["moco", "xbm"]
"""moco: the queue's keys are the only negatives, x→y; xbm: the batch's and the queue's."""


@dataclass(frozen=True)
class Loss:
    """A loss with or without a memory queue of the last `queue_batches` batches."""

    kind: LossKind
    queue_batches: int = 0
    queue_mode: QueueMode = "xbm"
    margin: float = 0.2
    top: int | None = None
    """How many of the negatives that a row sees count, the hardest; None for all."""
    divide_by: str = "positives"
    mse: float | None = None

    @property
    def name(self) -> str:
        """`loss_kind` in the report, such as `symmetric-top-4` or `bsc-all-mse-0.1`."""
        top = "" if self.top is None else f"-top-{self.top}"
        divided = "" if self.divide_by == "positives" else f"-{self.divide_by}"
        combined = "" if self.mse is None else f"-mse-{self.mse:g}"
        return f"{self.queue_mode if self.queue_batches else self.kind}{top}{divided}{combined}"

    @property
    def views(self) -> bool:
        """Whether a row meets all other views of its batch, those of its own side too (SimCLR's NT-Xent)."""
        return self.kind == "simclr"

    @property
    def queue_alone(self) -> bool:
        """Whether the only negatives of a row are of the batches before (MoCo)."""
        return self.queue_batches > 0 and self.queue_mode == "moco"

    @property
    def sides(self) -> tuple[int, ...]:
        """Directions over which the loss is a mean: 0 is x→y, 1 is y→x."""
        return (0,) if self.kind == "infonce" or self.queue_alone else (0, 1)

    def keys_in_all(self, rows: int) -> int:
        """Keys of one row in the global loss."""
        return 2 * rows - 1 if self.views else rows

    def oracle_negatives(self, rows: int, batch_size: int) -> int:
        """How many of its hardest negatives a row keeps in the oracle: as many as count of those in a full batch."""
        in_batch = 0 if self.queue_alone else (2 if self.views else 1) * (batch_size - 1)
        negatives = in_batch + batch_size * self.queue_batches
        return min(negatives, self.keys_in_all(rows) - 1, self.top or negatives)


class LossSettings(Settings, panel="Which loss"):
    """The losses of a report, each with the options that it takes."""

    loss: Annotated[tuple[LossKind, ...], Listed] = option(("symmetric",), min_length=1, metavar="LOSS")
    """infonce (MultipleNegativesRankingLoss): x→y; symmetric (CLIP): both ways; simclr (NT-Xent); bsc: symmetric, with
    several positives for a row; triplet: hardest negative. May be given several times. [default: symmetric; bsc with
    --positives or --labels]
    """
    queue: int = option(0, ge=0, only_with="loss=infonce|symmetric")
    """Number of batches held in a memory queue; 0 for none. Its keys count as if the current model had made them."""
    queue_mode: QueueMode = option("xbm", only_with="queue")
    """moco: the queue's keys are the only negatives (x→y); xbm: those of the batch and the queue."""
    loss_margin: Margin = option(0.2, only_with="loss=triplet")
    """triplet: margin between positive and hardest negative."""
    loss_top: int | None = option(None, ge=1, only_with="loss=infonce|symmetric|simclr")
    """L_train counts only this many of the negatives that a row sees, the hardest; L_global counts all. [default:
    all]
    """
    label_threshold: float | None = option(None, only_with="loss=bsc")
    """bsc: labels are numbers, and a row is a positive pair if its label is above this. [default: labels are 1 or 0]"""
    bsc_divide_by: Literal["positives", "all"] = option("positives", only_with="loss=bsc")
    """bsc: divide the sum over the positive pairs by their number, or by that of all rows (the paper's eq. 5)."""
    bsc_mse: float | None = option(None, gt=0, lt=1, only_with="loss=bsc")
    """bsc: the combo loss (eq. 6), this · L_BSC + (1 − this) · mean (s_ii − label)²; labels are target similarities, 1
    where none are given.
    """
    batch_coordinates: Literal["l2", "min-max", "range"] | None = option(None, only_with="loss=infonce|symmetric|bsc")
    """Also report the loss where each coordinate of the raw rows is normalised over the rows of a batch: divided by its
    L2 norm, scaled to 0 to 1, or divided by its range.
    """

    @property
    def losses(self) -> list[Loss]:
        """Each loss with the options that it takes."""
        return [self._loss(kind) for kind in self.loss]

    def _loss(self, kind: LossKind) -> Loss:
        if kind == "bsc":
            return Loss(kind, divide_by=self.bsc_divide_by, mse=self.bsc_mse)
        if kind == "triplet":
            return Loss(kind, margin=self.loss_margin)
        return Loss(kind, 0 if kind == "simclr" else self.queue, self.queue_mode, top=self.loss_top)

    @property
    def graded_labels(self) -> bool:
        """Whether labels are numbers, not only 1 and 0."""
        return self.label_threshold is not None or self.bsc_mse is not None


class ReportSettings(LossSettings, ThresholdSettings, WorkSettings):
    """What a report covers."""

    batch_sizes: Annotated[tuple[Annotated[int, Field(ge=2)], ...], Listed] = option(
        (DEFAULT_BATCH_SIZE,), "-k", min_length=1, option="--batch-size"
    )
    """Pairs in one loss; may be given several times. [default: the plan's, else 64]"""
    temperatures: Annotated[tuple[Temperature, ...], Listed] = option(
        (DEFAULT_TEMPERATURE,), "-t", min_length=1, option="--temperature"
    )
    """Temperature of the loss; may be given several times. [default: the plan's, else 0.05]"""
    drop_last: bool = option(False, off="--keep-last")
    """Whether the trainer drops the short last batch. [default: as planned, else kept]"""
    trials: Trials = 20
    """Number of random orders to compare with."""
    fn_margin: Margin = DEFAULT_MARGIN
    """Treat a pair as a suspected false negative when its similarity is at least this fraction of its positive's."""
    seed: Seed = 0

    def check_rows(self, rows: int) -> None:
        """Raises BadInput for what does not fit N rows."""
        for batch_size in self.batch_sizes:
            check_batch_size(batch_size, rows)
        self.requested_quantile(rows)


def report_on(plan: PlanSettings, threshold: float | None) -> ReportSettings:
    """The settings of the report on a plan; `threshold`: t of its graph, where it has one."""
    changes: dict[str, Any] = {"batch_sizes": plan.batch_size, "temperatures": plan.temperature}
    if threshold is not None:
        changes |= {"threshold": threshold, "quantile": None, "per_row": None}
    return plan.only(ReportSettings).changed(**changes)
