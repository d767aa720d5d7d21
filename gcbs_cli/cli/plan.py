"""`gcbs plan`: embeddings in, permutation and manifest out."""

import time
from pathlib import Path
from typing import Annotated

import typer

from gcbs_cli.cli import bsc_options, options, plan_options
from gcbs_cli.cli.edge import at_the_edge
from gcbs_cli.settings.plan import DEFAULT_BATCH_SIZE, DEFAULT_TEMPERATURE

RANKS_PANEL = "Ranks"


@at_the_edge
def plan(
    x: options.XPath,
    y: options.YPath = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="The permutation: .npy, .parquet, .txt, a folder of shards (plan/); - for one index a line on stdout.",
            rich_help_panel=options.OUTPUT_PANEL,
        ),
    ] = "perm.npy",
    batch_size: Annotated[
        int, typer.Option("--batch-size", "-k", help="Pairs that see each other in one loss.")
    ] = DEFAULT_BATCH_SIZE,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="rcm: reverse Cuthill–McKee; cm: the same unreversed; metis: parts of the graph; knn-groups, words, "
            "clusters, neighbours: the shufflings of batch-softmax contrast (BSC); random.",
        ),
    ] = "rcm",
    temperature: Annotated[
        float, typer.Option("--temperature", "-t", help="Temperature of the loss.")
    ] = DEFAULT_TEMPERATURE,
    drop_last: options.DropLast = False,
    world_size: Annotated[
        int | None,
        typer.Option("--world-size", help="Ranks W that train on the plan.", rich_help_panel=RANKS_PANEL),
    ] = None,
    gather: Annotated[
        bool,
        typer.Option(
            "--gather/--no-gather",
            help="Whether the loss gathers over ranks: each rank then takes k/W rows of every batch.",
            rich_help_panel=RANKS_PANEL,
        ),
    ] = False,
    refine: plan_options.Refine = False,
    time_limit: plan_options.TimeLimit = None,
    fn_margin: plan_options.FnMargin = None,
    fn_weight: plan_options.FnWeight = 1.0,
    groups: plan_options.Groups = None,
    groups_column: plan_options.GroupsColumn = None,
    no_duplicates: plan_options.NoDuplicates = False,
    group_size: plan_options.GroupSize = None,
    shuffle_batches: plan_options.ShuffleBatches = False,
    bsc_group_size: bsc_options.BscGroupSize = None,
    bsc_neighbours: bsc_options.BscNeighbours = None,
    bsc_by: bsc_options.BscBy = None,
    bsc_skip_identical: bsc_options.BscSkipIdentical = False,
    bsc_clusters: bsc_options.BscClusters = None,
    bsc_words: bsc_options.BscWords = None,
    text: bsc_options.Text = None,
    text_column: bsc_options.TextColumn = None,
    x_column: options.XColumn = None,
    y_column: options.YColumn = None,
    dtype: options.Dtype = None,
    normalize: options.Normalize = True,
    graph: options.Graph = options.GraphChoice.QUANTILE,
    top: options.Top = 16,
    rank_window: plan_options.RankWindow = None,
    quantile: options.Quantile = None,
    per_row: options.PerRow = None,
    threshold: options.Threshold = None,
    quantile_method: options.QuantileMethodOption = options.QuantileMethodChoice.SAMPLE,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    chunk_rows: options.ChunkRows = None,
    max_memory: options.MaxMemory = None,
    max_edges: options.MaxEdges = None,
    partitions: Annotated[
        str | None,
        typer.Option(
            "--partitions",
            help="Plan in so many parts of similar rows, one in memory at a time; auto: parts of at most 131,072 rows. "
            "Quantile and lists count within a part.",
            rich_help_panel=options.WORK_PANEL,
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            help="Where parts are planned: local, or ray for the tasks of a Ray cluster (gcbs[ray]).",
            rich_help_panel=options.WORK_PANEL,
        ),
    ] = "local",
    address: Annotated[
        str, typer.Option("--address", help="Of the Ray cluster.", rich_help_panel=options.WORK_PANEL)
    ] = "auto",
    transport: Annotated[
        str,
        typer.Option(
            "--transport",
            help="How rows get to the cluster: store, from here through Ray's object store; path, read by the tasks "
            "from beside the output, in a folder that every node sees.",
            rich_help_panel=options.WORK_PANEL,
        ),
    ] = "store",
    work_dir: Annotated[
        str | None,
        typer.Option(
            "--work-dir",
            help="Keep the plans of finished --partitions in this folder until all are there: after a kill, the same "
            "command plans those that are left.",
            rich_help_panel=options.WORK_PANEL,
        ),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(
            "--report", help="Write the gap report to this .json as well.", rich_help_panel=options.OUTPUT_PANEL
        ),
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Estimate threshold, edges and memory; write nothing.",
            rich_help_panel=options.OUTPUT_PANEL,
        ),
    ] = False,
    force: options.Force = False,
) -> None:
    """Order the pairs so that consecutive batches hold hard negatives.

    Reads paired embeddings, finds the pairs above a quantile of all similarities, orders them, and writes the
    permutation with a manifest beside it.

    Examples:

      gcbs plan x.npy y.npy -o perm.npy --batch-size 64

      gcbs plan x.npy y.npy --graph top-m --refine --fn-margin 0.95

      gcbs plan x.npy y.npy --partitions 4 -o plan/

      gcbs plan pairs.parquet -o - | gcbs report pairs.parquet -p - --json
    """
    from gcbs_cli.cli.group_files import GroupsFile
    from gcbs_cli.cli.inputs import InputOptions
    from gcbs_cli.cli.output import choose_mode
    from gcbs_cli.cli.planning import PlanCommand
    from gcbs_cli.cli.texts import TextOptions
    from gcbs_cli.settings.plan import PlanSettings
    from gcbs_cli.system.errors import BadInput

    bsc = {
        "bsc_group_size": bsc_group_size,
        "bsc_neighbours": bsc_neighbours,
        "bsc_by": bsc_by,
        "bsc_skip_identical": bsc_skip_identical,
        "bsc_clusters": bsc_clusters,
        "bsc_words": bsc_words,
    }
    settings = PlanSettings.of(
        batch_size=batch_size,
        method=method,
        temperature=temperature,
        seed=seed,
        drop_last=drop_last,
        device=device,
        chunk_rows=chunk_rows,
        max_memory=max_memory,
        max_edges=max_edges,
        world_size=world_size,
        gather=gather,
        refine=refine,
        time_limit=time_limit,
        fn_margin=fn_margin,
        fn_weight=fn_weight,
        no_duplicates=no_duplicates,
        group_size=group_size,
        shuffle_batches=shuffle_batches,
        quantile=quantile,
        per_row=per_row,
        threshold=threshold,
        quantile_method=quantile_method,
        graph=graph,
        top=top,
        rank_window=rank_window,
        partitions=partitions,
        engine=engine,
        address=address,
        transport=transport,
        **{name: value for name, value in bsc.items() if value},
    )
    inputs = InputOptions(x, y, x_column, y_column, dtype.value if dtype else None, normalize)
    settings.check_effects()
    command = PlanCommand(
        inputs=inputs,
        settings=settings,
        output=output,
        report_path=Path(report) if report else None,
        mode=choose_mode(as_json=as_json, quiet=quiet),
        force=force,
        work_dir=Path(work_dir) if work_dir else None,
        began=time.perf_counter(),
        text=TextOptions(text, text_column),
        groups=GroupsFile(groups, groups_column),
    )
    if partitions is not None:
        from gcbs_cli.cli.partitioned import PartitionedCommand

        PartitionedCommand(command).run(dry_run=dry_run)
        return
    if work_dir is not None:
        raise BadInput("--work-dir: keeps the plans of finished parts and goes with --partitions")
    command.estimate() if dry_run else command.run()
