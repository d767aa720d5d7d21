"""The options of `gcbs plan` and `compare` for the batch-softmax shuffling methods."""

from enum import StrEnum
from typing import Annotated

import typer

BSC_PANEL = "BSC (--method knn-groups, words, clusters, neighbours)"


class ByChoice(StrEnum):
    """The side on which rows are compared."""

    X = "x"
    Y = "y"
    BOTH = "both"


BscGroupSize = Annotated[
    int | None,
    typer.Option(
        "--bsc-group-size",
        help="Rows a group at most. [default: 8]",
        rich_help_panel=BSC_PANEL,
        show_default=False,
    ),
]
BscNeighbours = Annotated[
    int | None,
    typer.Option(
        "--bsc-neighbours",
        help="Nearest rows considered. [default: 500 for knn-groups, 3 for neighbours]",
        rich_help_panel=BSC_PANEL,
        show_default=False,
    ),
]
BscBy = Annotated[
    ByChoice | None,
    typer.Option(
        "--bsc-by",
        help="Rows are near by x, by y or by the mean of both. [default: both]",
        rich_help_panel=BSC_PANEL,
        show_default=False,
    ),
]
BscSkipIdentical = Annotated[
    bool,
    typer.Option(
        "--bsc-skip-identical",
        help="knn-groups: pass over neighbours with the same embedding.",
        rich_help_panel=BSC_PANEL,
    ),
]
BscClusters = Annotated[
    int | None,
    typer.Option(
        "--bsc-clusters",
        help="clusters: how many. [default: one a batch, 1,024 at most]",
        rich_help_panel=BSC_PANEL,
        show_default=False,
    ),
]
BscWords = Annotated[
    int | None,
    typer.Option(
        "--bsc-words",
        help="Words, or neighbours, a shingle. [default: 1]",
        rich_help_panel=BSC_PANEL,
        show_default=False,
    ),
]
Text = Annotated[
    str | None,
    typer.Option(
        "--text",
        help="words: a text for each row (.txt, .parquet, .jsonl, .csv).",
        rich_help_panel=BSC_PANEL,
    ),
]
TextColumn = Annotated[
    str | None,
    typer.Option("--text-column", help="Its column, where there are several.", rich_help_panel=BSC_PANEL),
]
