"""Options that several commands share, so that they read alike everywhere."""

from enum import StrEnum
from typing import Annotated

import typer

INPUT_PANEL = "Input"
GRAPH_PANEL = "Which pairs are hard"
WORK_PANEL = "How the work is done"
OUTPUT_PANEL = "Output"


class QuantileMethodChoice(StrEnum):
    """How the quantile is estimated."""

    SAMPLE = "sample"
    CHUNKS = "chunks"
    EXACT = "exact"


class GraphChoice(StrEnum):
    """What makes an edge."""

    QUANTILE = "quantile"
    TOP = "top-m"


class DtypeChoice(StrEnum):
    """What untyped 16-bit elements are."""

    BFLOAT16 = "bfloat16"


XPath = Annotated[
    str,
    typer.Argument(
        metavar="X",
        help="Embeddings of the first side: a .npy, .parquet or .safetensors file, a directory or a glob of shards.",
        show_default=False,
    ),
]
YPath = Annotated[
    str | None,
    typer.Argument(metavar="Y", help="Embeddings of the second side; leave out when X holds both.", show_default=False),
]
XColumn = Annotated[
    str | None,
    typer.Option("--x-column", help="Column (Parquet) or tensor (safetensors) of X.", rich_help_panel=INPUT_PANEL),
]
YColumn = Annotated[
    str | None,
    typer.Option("--y-column", help="Column (Parquet) or tensor (safetensors) of Y.", rich_help_panel=INPUT_PANEL),
]
Dtype = Annotated[
    DtypeChoice | None,
    typer.Option("--dtype", help="Read 2-byte void elements of .npy as bfloat16.", rich_help_panel=INPUT_PANEL),
]
Normalize = Annotated[
    bool,
    typer.Option(
        "--normalize/--no-normalize",
        help="Scale rows to unit length; --no-normalize for rows that have it already.",
        rich_help_panel=INPUT_PANEL,
    ),
]
Quantile = Annotated[
    float | None,
    typer.Option(
        "--quantile",
        help="Pairs above this quantile of all similarities are edges. [default: 0.999]",
        rich_help_panel=GRAPH_PANEL,
        show_default=False,
    ),
]
PerRow = Annotated[
    float | None,
    typer.Option("--per-row", help="The same, as expected entries a row: q = 1 − m/N.", rich_help_panel=GRAPH_PANEL),
]
Threshold = Annotated[
    float | None,
    typer.Option("--threshold", help="The same, as a similarity: no estimate is made.", rich_help_panel=GRAPH_PANEL),
]
Graph = Annotated[
    GraphChoice,
    typer.Option(
        "--graph",
        help="quantile: pairs above the threshold; top-m: the --top hardest of each row, so that no row goes without.",
        rich_help_panel=GRAPH_PANEL,
    ),
]
Top = Annotated[
    int, typer.Option("--top", help="Hardest a row in --graph top-m, both ways.", rich_help_panel=GRAPH_PANEL)
]
QuantileMethodOption = Annotated[
    QuantileMethodChoice,
    typer.Option(
        "--quantile-method",
        help="sample: seeded rows × columns; chunks: median over row chunks (GCBS); exact: all N² entries.",
        rich_help_panel=GRAPH_PANEL,
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Decides every random draw.", rich_help_panel=WORK_PANEL)]
DEVICE_HELP = "auto, cpu, cuda, cuda:INDEX, or several GPUs: cuda:0,1,... or cuda:all."
Device = Annotated[str, typer.Option("--device", help=DEVICE_HELP, rich_help_panel=WORK_PANEL)]
ChunkRows = Annotated[
    int | None,
    typer.Option(
        "--chunk-rows",
        help="Rows a block of the pass; changes memory and speed, never the result.",
        rich_help_panel=WORK_PANEL,
    ),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        "--max-memory",
        help="Stop before the pass if more would be needed, such as 8G. [default: most of what is free]",
        rich_help_panel=WORK_PANEL,
        show_default=False,
    ),
]
MaxEdges = Annotated[
    int | None,
    typer.Option(
        "--max-edges",
        help="Stop before the pass if more entries would lie above the threshold.",
        rich_help_panel=WORK_PANEL,
    ),
]
DropLast = Annotated[
    bool, typer.Option("--drop-last", help="The trainer drops the short last batch; changes only what is reported.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON object on stdout.", rich_help_panel=OUTPUT_PANEL)
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="Errors only: no table, no progress, no warnings.", rich_help_panel=OUTPUT_PANEL
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace the output file.", rich_help_panel=OUTPUT_PANEL)]
