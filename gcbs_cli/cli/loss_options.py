"""Options of `gcbs report` for losses with several positives, labels, or triplets."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gcbs_cli.reports.bsc import RowLabels

LOSS_PANEL = "Which loss"


LossMargin = Annotated[
    float,
    typer.Option(
        "--loss-margin", help="triplet: margin between positive and hardest negative.", rich_help_panel=LOSS_PANEL
    ),
]
PositivesFile = Annotated[
    str | None,
    typer.Option(
        "--positives",
        help="bsc: a value for each row (.txt, .npy, .csv, .jsonl, .parquet); rows with the same one are positives of "
        "each other. [default: rows with equal x]",
        rich_help_panel=LOSS_PANEL,
        show_default=False,
    ),
]
PositivesColumn = Annotated[
    str | None,
    typer.Option("--positives-column", help="Its column, where there are several.", rich_help_panel=LOSS_PANEL),
]
LabelsFile = Annotated[
    str | None,
    typer.Option(
        "--labels",
        help="bsc: 1 for each row that is a positive pair, 0 for one that counts as a negative only.",
        rich_help_panel=LOSS_PANEL,
    ),
]
LabelsColumn = Annotated[
    str | None,
    typer.Option("--labels-column", help="Its column, where there are several.", rich_help_panel=LOSS_PANEL),
]


@dataclass(frozen=True)
class LabelFiles:
    """Where the positives and labels of the loss `bsc` are; None where nothing was said."""

    positives: str | None = None
    positives_column: str | None = None
    labels: str | None = None
    labels_column: str | None = None

    @property
    def given(self) -> bool:
        """Whether any file was named."""
        return self.positives is not None or self.labels is not None

    def read(self, rows: int) -> "RowLabels":
        """Both files. Raises BadInput for one that cannot be read or has not one value for each of the N rows."""
        from gcbs_cli.data.row_values import check_row_count, read_row_flags, read_row_ids
        from gcbs_cli.reports.bsc import RowLabels

        ids, asks = None, None
        if self.positives is not None:
            ids = read_row_ids(self.positives, "--positives", self.positives_column)
            check_row_count(len(ids), rows, self.positives, "--positives")
        if self.labels is not None:
            asks = read_row_flags(self.labels, "--labels", self.labels_column)
            check_row_count(len(asks), rows, self.labels, "--labels")
        return RowLabels(ids, asks)
