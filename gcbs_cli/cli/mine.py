"""`gcbs mine`: hard negatives for each row."""

from enum import StrEnum
from typing import Annotated

import typer

from gcbs_cli.cli import options
from gcbs_cli.cli.edge import at_the_edge
from gcbs_cli.settings.plan import DEFAULT_BATCH_SIZE, DEFAULT_TEMPERATURE

CHOICE_PANEL = "Which negatives"
LOSS_PANEL = "The loss with them"


class SamplingChoice(StrEnum):
    """How negatives are taken from the candidates."""

    TOP = "top"
    RANDOM = "random"


@at_the_edge
def mine(
    x: options.XPath,
    y: options.YPath = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="The negatives: .parquet, .jsonl or .csv (query, negative, score, rank); - for JSON lines on stdout.",
            rich_help_panel=options.OUTPUT_PANEL,
        ),
    ] = "negatives.parquet",
    negatives: Annotated[
        int, typer.Option("--negatives", "-l", help="Negatives for each row.", rich_help_panel=CHOICE_PANEL)
    ] = 3,
    range_min: Annotated[
        int, typer.Option("--range-min", help="Skip so many of the hardest.", rich_help_panel=CHOICE_PANEL)
    ] = 0,
    range_max: Annotated[
        int | None,
        typer.Option("--range-max", help="Take none beyond this rank.", rich_help_panel=CHOICE_PANEL),
    ] = None,
    max_score: Annotated[
        float | None, typer.Option("--max-score", help="Refuse similarities above.", rich_help_panel=CHOICE_PANEL)
    ] = None,
    min_score: Annotated[
        float | None, typer.Option("--min-score", help="Refuse similarities below.", rich_help_panel=CHOICE_PANEL)
    ] = None,
    absolute_margin: Annotated[
        float | None,
        typer.Option(
            "--absolute-margin", help="Refuse similarities above positive − margin.", rich_help_panel=CHOICE_PANEL
        ),
    ] = None,
    relative_margin: Annotated[
        float | None,
        typer.Option(
            "--relative-margin",
            help="Refuse similarities above positive − margin · |positive|, such as 0.05.",
            rich_help_panel=CHOICE_PANEL,
        ),
    ] = None,
    sampling: Annotated[
        SamplingChoice,
        typer.Option(
            "--sampling",
            help="top: the hardest candidates; random: a seeded draw from --range-max of them.",
            rich_help_panel=CHOICE_PANEL,
        ),
    ] = SamplingChoice.TOP,
    positives: Annotated[
        str | None,
        typer.Option(
            "--positives",
            help="A value for each row (.txt, .npy, .csv, .jsonl, .parquet): rows with the same one are positives of "
            "each other, never negatives.",
            rich_help_panel=CHOICE_PANEL,
        ),
    ] = None,
    positives_column: Annotated[
        str | None,
        typer.Option("--positives-column", help="Its column, where there are several.", rich_help_panel=CHOICE_PANEL),
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", "-k", help="Pairs in one loss.", rich_help_panel=LOSS_PANEL)
    ] = DEFAULT_BATCH_SIZE,
    temperature: Annotated[
        float, typer.Option("--temperature", "-t", help="Temperature of the loss.", rich_help_panel=LOSS_PANEL)
    ] = DEFAULT_TEMPERATURE,
    trials: Annotated[
        int, typer.Option("--trials", help="Random orders to take the mean of.", rich_help_panel=LOSS_PANEL)
    ] = 5,
    x_column: options.XColumn = None,
    y_column: options.YColumn = None,
    dtype: options.Dtype = None,
    normalize: options.Normalize = True,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    chunk_rows: options.ChunkRows = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    force: options.Force = False,
) -> None:
    """Find each row's hardest negatives, and say what the loss would be with them.

    The other way to train on hard negatives: Hard Negative (1..l) appends to every row of a random batch its own l
    hardest of Y. Options are those of sentence-transformers' mine_hard_negatives.

    Examples:

      gcbs mine x.npy y.npy -o negatives.parquet --negatives 1

      gcbs mine pairs.parquet -o - -l 5 --relative-margin 0.05 --sampling random | head
    """
    from gcbs_cli.cli.inputs import InputOptions
    from gcbs_cli.cli.mining import MineCommand
    from gcbs_cli.cli.output import choose_mode
    from gcbs_cli.settings.mine import MineSettings

    settings = MineSettings.of(
        negatives=negatives,
        range_min=range_min,
        range_max=range_max,
        max_score=max_score,
        min_score=min_score,
        absolute_margin=absolute_margin,
        relative_margin=relative_margin,
        sampling=sampling.value,
        seed=seed,
        batch_size=batch_size,
        temperature=temperature,
        trials=trials,
        device=device,
        chunk_rows=chunk_rows,
    )
    command = MineCommand(
        inputs=InputOptions(x, y, x_column, y_column, dtype.value if dtype else None, normalize),
        settings=settings,
        output=output,
        positives=positives,
        positives_column=positives_column,
        mode=choose_mode(as_json=as_json, quiet=quiet),
        force=force,
    )
    command.run()
