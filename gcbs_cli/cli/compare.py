"""`gcbs compare`: all methods on the same data in one table."""

from typing import Annotated

import typer

from gcbs_cli.cli import bsc_options, options, plan_options
from gcbs_cli.cli.edge import at_the_edge
from gcbs_cli.settings.plan import DEFAULT_BATCH_SIZE, DEFAULT_TEMPERATURE


@at_the_edge
def compare(
    x: options.XPath,
    y: options.YPath = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            help="Names with commas between, such as rcm,metis+refine. [default: all there are; words with --text]",
            show_default=False,
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", "-k", help="Pairs that see each other in one loss.")
    ] = DEFAULT_BATCH_SIZE,
    temperature: Annotated[
        float, typer.Option("--temperature", "-t", help="Temperature of the loss.")
    ] = DEFAULT_TEMPERATURE,
    drop_last: options.DropLast = False,
    refine: plan_options.Refine = False,
    time_limit: plan_options.TimeLimit = None,
    fn_margin: plan_options.FnMargin = None,
    fn_weight: plan_options.FnWeight = 1.0,
    groups: plan_options.Groups = None,
    groups_column: plan_options.GroupsColumn = None,
    no_duplicates: plan_options.NoDuplicates = False,
    group_size: plan_options.GroupSize = None,
    bsc_group_size: bsc_options.BscGroupSize = None,
    bsc_neighbours: bsc_options.BscNeighbours = None,
    bsc_by: bsc_options.BscBy = None,
    bsc_skip_identical: bsc_options.BscSkipIdentical = False,
    bsc_clusters: bsc_options.BscClusters = None,
    bsc_words: bsc_options.BscWords = None,
    text: bsc_options.Text = None,
    text_column: bsc_options.TextColumn = None,
    recurrence: Annotated[
        bool,
        typer.Option("--recurrence", help="Plan with the next seed too: how many in-batch pairs come again?"),
    ] = False,
    trials: Annotated[int, typer.Option("--trials", help="Random orders to compare with.")] = 5,
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
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a plan with each method and say what each is worth.

    Seconds are those after the pass over all pairs, which is made once for the plans and once for the reports.

    Examples:

      gcbs compare x.npy y.npy

      gcbs compare x.npy y.npy --methods rcm,metis+refine --graph top-m --json

      gcbs compare x.npy y.npy --methods words,knn-groups --text texts.txt --bsc-group-size 8
    """
    from gcbs_cli.cli.compare_tables import compare_table
    from gcbs_cli.cli.group_files import GroupsFile
    from gcbs_cli.cli.inputs import InputOptions, read_pair
    from gcbs_cli.cli.output import Output, choose_mode
    from gcbs_cli.cli.texts import TextOptions
    from gcbs_cli.cli.watching import watcher_for
    from gcbs_cli.comparison.compare import compare_methods, default_methods, not_installed, plain_names
    from gcbs_cli.settings.plan import PlanSettings

    out = Output(choose_mode(as_json=as_json, quiet=quiet))
    texts = TextOptions(text, text_column)
    every = default_methods(texts=text is not None)
    if methods is None:
        for missing in not_installed().values():
            out.note(f"left out: {missing}")
    names = every if methods is None else [name.strip() for name in methods.split(",")]
    texts.check(plain_names(names))
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
        temperature=temperature,
        seed=seed,
        drop_last=drop_last,
        device=device,
        chunk_rows=chunk_rows,
        max_memory=max_memory,
        max_edges=max_edges,
        refine=refine,
        time_limit=time_limit,
        fn_margin=fn_margin,
        fn_weight=fn_weight,
        no_duplicates=no_duplicates,
        group_size=group_size,
        quantile=quantile,
        per_row=per_row,
        threshold=threshold,
        quantile_method=quantile_method,
        graph=graph,
        top=top,
        rank_window=rank_window,
        **{name: value for name, value in bsc.items() if value},
    )
    inputs = InputOptions(x, y, x_column, y_column, dtype.value if dtype else None, normalize)
    sources = inputs.open()
    settings.check_rows(sources[0].rows)
    inputs_of_methods = texts.read(sources[0].rows)
    rows_apart = GroupsFile(groups, groups_column).read(sources[0].rows)
    pair = read_pair(sources, inputs, out)
    with watcher_for(out) as watcher:
        lines = compare_methods(
            pair.unit,
            settings,
            names,
            watcher,
            trials=trials,
            recurrence=recurrence,
            groups=rows_apart,
            method_inputs=inputs_of_methods,
        )
    pair.check_unchanged()
    out.table(compare_table(lines))
    out.result({"batch_size": batch_size, "temperature": temperature, "methods": [line.as_record() for line in lines]})
