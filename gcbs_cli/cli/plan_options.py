"""Options of `gcbs plan`, `compare` and `tune` beyond the method: refinement, false negatives, groups, difficulty."""

from typing import Annotated

import typer

REFINE_PANEL = "Refinement"
FALSE_NEGATIVES_PANEL = "False negatives"
BATCHES_PANEL = "What batches hold"


RankWindow = Annotated[
    str | None,
    typer.Option(
        "--rank-window",
        metavar="P:M",
        help="Edges only to ranks P to P+M−1 of each row, and only if mutual (B3).",
        rich_help_panel="Which pairs are hard",
    ),
]
Refine = Annotated[
    bool,
    typer.Option(
        "--refine/--no-refine",
        help="Swap rows between batches after the method, on the loss itself, until it no longer pays.",
        rich_help_panel=REFINE_PANEL,
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option("--time-limit", help="Seconds for the refinement. [default: none]", rich_help_panel=REFINE_PANEL),
]
FnMargin = Annotated[
    float | None,
    typer.Option(
        "--fn-margin",
        help="Suspect pairs from this share of a positive's similarity on, such as 0.95: no edge between them, and the "
        "refinement keeps them apart.",
        rich_help_panel=FALSE_NEGATIVES_PANEL,
    ),
]
FnWeight = Annotated[
    float,
    typer.Option(
        "--fn-weight",
        help="What a suspected pair inside a batch costs the refinement, in nats; 0.2 trained better models than 1.",
        rich_help_panel=FALSE_NEGATIVES_PANEL,
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        "--groups",
        help="An id for each row (.txt, .npy, .csv, .jsonl, .parquet): rows with the same one never share a batch.",
        rich_help_panel=FALSE_NEGATIVES_PANEL,
    ),
]
GroupsColumn = Annotated[
    str | None,
    typer.Option("--groups-column", help="Its column, where there are several.", rich_help_panel=FALSE_NEGATIVES_PANEL),
]
NoDuplicates = Annotated[
    bool,
    typer.Option(
        "--no-duplicates",
        help="Rows with equal x or equal y never share a batch.",
        rich_help_panel=FALSE_NEGATIVES_PANEL,
    ),
]
GroupSize = Annotated[
    int | None,
    typer.Option(
        "--group-size",
        help="Hard groups of this size, mixed at random into batches: 1 is random, k as hard as the plan.",
        rich_help_panel=BATCHES_PANEL,
    ),
]
ShuffleBatches = Annotated[
    bool, typer.Option("--shuffle-batches", help="Full batches in random order.", rich_help_panel=BATCHES_PANEL)
]


def parse_rank_window(text: str | None) -> tuple[int, int] | None:
    """`30:100` as (30, 100). Raises BadInput."""
    from gcbs_cli.system.errors import BadInput

    if text is None:
        return None
    skipped, _, width = text.partition(":")
    if not (skipped.isdecimal() and width.isdecimal()):
        raise BadInput(f"--rank-window {text}: expected P:M such as 30:100, to skip P ranks and keep the next M")
    return int(skipped), int(width)
