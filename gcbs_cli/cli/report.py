"""`gcbs report`: what a plan is worth."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gcbs_cli.cli import loss_options, options
from gcbs_cli.cli.edge import at_the_edge

LOSS_PANEL = "Which loss"


class LossChoice(StrEnum):
    """The losses of `gcbs_cli.reports.losses.LossKind`, without importing numerics for --help."""

    INFONCE = "infonce"
    SYMMETRIC = "symmetric"
    SIMCLR = "simclr"
    BSC = "bsc"
    TRIPLET = "triplet"


class QueueModeChoice(StrEnum):
    """What a memory queue does."""

    MOCO = "moco"
    XBM = "xbm"


@at_the_edge
def report(
    x: options.XPath,
    y: options.YPath = None,
    perm: Annotated[
        str | None,
        typer.Option(
            "--perm",
            "-p",
            help="The permutation to report on; - reads indices from stdin. Without it: is planning worth it?",
        ),
    ] = None,
    batch_size: Annotated[
        list[int] | None,
        typer.Option(
            "--batch-size",
            "-k",
            help="Pairs in one loss; may be given several times. [default: the plan's, else 64]",
            show_default=False,
        ),
    ] = None,
    temperature: Annotated[
        list[float] | None,
        typer.Option(
            "--temperature",
            "-t",
            help="May be given several times. [default: the plan's, else 0.05]",
            show_default=False,
        ),
    ] = None,
    loss: Annotated[
        list[LossChoice] | None,
        typer.Option(
            "--loss",
            help="infonce: x→y; symmetric: both ways (CLIP); simclr: NT-Xent; bsc: symmetric, several positives a row; "
            "triplet: hardest negative. May be given several times. "
            "[default: symmetric; bsc with --positives or --labels]",
            rich_help_panel=LOSS_PANEL,
            show_default=False,
        ),
    ] = None,
    queue: Annotated[
        int,
        typer.Option("--queue", help="Batches held in a memory queue, 0 for none.", rich_help_panel=LOSS_PANEL),
    ] = 0,
    queue_mode: Annotated[
        QueueModeChoice,
        typer.Option(
            "--queue-mode",
            help="moco: the queue's keys are the only negatives (x→y); xbm: the batch's and the queue's.",
            rich_help_panel=LOSS_PANEL,
        ),
    ] = QueueModeChoice.XBM,
    loss_margin: loss_options.LossMargin = 0.2,
    positives: loss_options.PositivesFile = None,
    positives_column: loss_options.PositivesColumn = None,
    labels: loss_options.LabelsFile = None,
    labels_column: loss_options.LabelsColumn = None,
    drop_last: Annotated[
        bool | None,
        typer.Option(
            "--drop-last/--keep-last",
            help="Whether the trainer drops the short last batch. [default: as planned, else kept]",
            rich_help_panel=LOSS_PANEL,
            show_default=False,
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            help="Report on so many rows of the plan, in whole batches, against all pairs, with 95 % intervals: for N "
            "where N² is out of reach. Reads block by block.",
        ),
    ] = None,
    trials: Annotated[int, typer.Option("--trials", help="Random orders to compare with.")] = 20,
    fn_margin: Annotated[
        float,
        typer.Option(
            "--fn-margin",
            help="Suspect a false negative at this share of a positive's similarity.",
        ),
    ] = 0.95,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups",
            help="An id for each row: rows with the same one are suspected too. [default: as planned]",
            show_default=False,
        ),
    ] = None,
    groups_column: Annotated[
        str | None, typer.Option("--groups-column", help="Its column, where there are several.")
    ] = None,
    x_column: options.XColumn = None,
    y_column: options.YColumn = None,
    dtype: options.Dtype = None,
    normalize: options.Normalize = True,
    quantile: options.Quantile = None,
    per_row: options.PerRow = None,
    threshold: options.Threshold = None,
    quantile_method: options.QuantileMethodOption = options.QuantileMethodChoice.SAMPLE,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    chunk_rows: options.ChunkRows = None,
    max_memory: options.MaxMemory = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="Write the JSON report to this file.", rich_help_panel=options.OUTPUT_PANEL
        ),
    ] = None,
    html: Annotated[
        str | None,
        typer.Option(
            "--html", help="Write the report as one page that needs no network.", rich_help_panel=options.OUTPUT_PANEL
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id-column",
            help="Column with the rows' names for --html. [default: id, where there is one]",
            rich_help_panel=options.INPUT_PANEL,
            show_default=False,
        ),
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    force: options.Force = False,
) -> None:
    """Say how much of the gap between L_global and L_train a plan closes.

    L_global is the loss over all pairs, L_train the loss that training on the batches sees. Batch size, temperature,
    threshold and columns come from the plan's manifest unless given.

    Examples:

      gcbs report x.npy y.npy -p perm.npy

      gcbs report pairs.parquet -p perm.npy --html report.html

      gcbs report x.npy y.npy -p plan/ --rows 100000

      gcbs report pairs.parquet --json -k 64 -k 256 -t 0.02 -t 0.05
    """
    from gcbs_cli.cli.group_files import GroupsFile
    from gcbs_cli.cli.inputs import InputOptions
    from gcbs_cli.cli.output import choose_mode
    from gcbs_cli.cli.reporting import Asked, ReportCommand
    from gcbs_cli.settings.plan import GraphSettings
    from gcbs_cli.settings.report import Loss, LossKind, QueueMode
    from gcbs_cli.system.limits import parse_size

    files = loss_options.LabelFiles(positives, positives_column, labels, labels_column)
    asked_losses = loss or [LossChoice.BSC if files.given else LossChoice.SYMMETRIC]
    kinds = [Loss(LossKind(kind.value), queue, QueueMode(queue_mode.value), loss_margin) for kind in asked_losses]
    graph = GraphSettings(
        quantile=quantile, per_row=per_row, threshold=threshold, quantile_method=quantile_method.value
    )
    command = ReportCommand(
        inputs=InputOptions(x, y, x_column, y_column, dtype.value if dtype else None, normalize),
        perm=perm,
        asked=Asked(
            batch_size,
            temperature,
            drop_last,
            graph if (quantile, per_row, threshold) != (None,) * 3 else None,
        ),
        losses=kinds,
        trials=trials,
        fn_margin=fn_margin,
        groups=GroupsFile(groups, groups_column),
        quantile_method=quantile_method.value,
        seed=seed,
        device=device,
        tile_rows=chunk_rows,
        max_memory=None if max_memory is None else parse_size(max_memory, "--max-memory"),
        output=Path(output) if output else None,
        html=Path(html) if html else None,
        id_column=id_column,
        label_files=files,
        mode=choose_mode(as_json=as_json, quiet=quiet),
        force=force,
    )
    if rows is not None:
        from gcbs_cli.cli.sampled_reporting import SampledCommand

        SampledCommand(command, rows).run()
        return
    command.run()
