"""What a report can be asked for."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gcbs_cli.settings.model import Listed, Settings, Typed
from gcbs_cli.settings.plan import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_MARGIN,
    DEFAULT_TEMPERATURE,
    GraphSettings,
    Margin,
    Seed,
    Temperature,
    WorkSettings,
    check_batch_size,
)

LOSS_PANEL = "Which loss"


class LossKind(StrEnum):
    """`infonce`: x→y; `symmetric`: mean of x→y and y→x (CLIP); `simclr`: NT-Xent over the 2N views; `bsc`: symmetric
    with several positives a row; `triplet`: with the hardest negative.
    """

    INFONCE = "infonce"
    SYMMETRIC = "symmetric"
    SIMCLR = "simclr"
    BSC = "bsc"
    TRIPLET = "triplet"


class QueueMode(StrEnum):
    """`moco`: the queue's keys are the only negatives, x→y; `xbm`: the batch's and the queue's."""

    MOCO = "moco"
    XBM = "xbm"


class LossSettings(Settings):
    """The losses of a report."""

    panel = LOSS_PANEL

    loss: Annotated[tuple[LossKind, ...], Listed, Typed(default="symmetric; bsc with --positives or --labels")] = Field(
        (LossKind.SYMMETRIC,),
        min_length=1,
        description="infonce: x→y; symmetric: both ways (CLIP); simclr: NT-Xent; bsc: symmetric, with several "
        "positives for a row; triplet: hardest negative. May be given several times.",
    )
    queue: int = Field(0, ge=0, description="Number of batches held in a memory queue; 0 for none.")
    queue_mode: QueueMode = Field(
        QueueMode.XBM,
        description="moco: the queue's keys are the only negatives (x→y); xbm: those of the batch and the queue.",
    )
    loss_margin: Margin = Field(0.2, description="triplet: margin between positive and hardest negative.")


class ReportSettings(Settings):
    """What a report covers."""

    batch_sizes: Annotated[
        tuple[Annotated[int, Field(ge=2)], ...],
        Listed,
        Typed("-k", option="--batch-size", default="the plan's, else 64"),
    ] = Field((DEFAULT_BATCH_SIZE,), min_length=1, description="Pairs in one loss; may be given several times.")
    temperatures: Annotated[
        tuple[Temperature, ...], Listed, Typed("-t", option="--temperature", default="the plan's, else 0.05")
    ] = Field((DEFAULT_TEMPERATURE,), min_length=1, description="Temperature of the loss; may be given several times.")
    loss_choice: LossSettings = LossSettings()
    drop_last: Annotated[bool, Typed(off="--keep-last", default="as planned, else kept")] = Field(
        False, description="Whether the trainer drops the short last batch."
    )
    trials: int = Field(20, ge=1, description="Number of random orders to compare with.")
    fn_margin: Margin = Field(
        DEFAULT_MARGIN,
        description="Treat a pair as a suspected false negative when its similarity is at least this fraction of its "
        "positive's.",
    )
    graph: GraphSettings = GraphSettings()
    seed: Seed = Field(0, description="Decides every random draw.")
    work: WorkSettings = WorkSettings()
    omitted = frozenset({"graph", "top", "rank_window"})

    def check_rows(self, rows: int) -> None:
        """Raises BadInput for what does not fit N rows."""
        for batch_size in self.batch_sizes:
            check_batch_size(batch_size, rows)
        self.graph.requested_quantile(rows)
