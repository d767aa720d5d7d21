"""`gcbs compare`: all methods on the same data in one table."""

from typing import Annotated

import typer

from gcbs_cli.cli import options, plan_options
from gcbs_cli.cli.edge import at_the_edge
from gcbs_cli.settings import DEFAULT_BATCH_SIZE, DEFAULT_TEMPERATURE, DEFAULT_TOP


@at_the_edge
def compare(
    x: options.XPath,
    y: options.YPath = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            help="Names with commas between, such as rcm,metis+refine. [default: all that are installed]",
            show_default=False,
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", "-k", help="Pairs that see each other in one loss.")
    ] = DEFAULT_BATCH_SIZE,
    temperature: Annotated[
        float, typer.Option("--temperature", "-t", help="Temperature of the loss.")
    ] = DEFAULT_TEMPERATURE,
    refine: Annotated[
        bool,
        typer.Option("--refine", help="Refine every method's plan.", rich_help_panel=plan_options.REFINE_PANEL),
    ] = False,
    time_limit: plan_options.TimeLimit = None,
    fn_margin: plan_options.FnMargin = None,
    fn_weight: plan_options.FnWeight = 1.0,
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
    top: options.Top = DEFAULT_TOP,
    quantile: options.Quantile = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a plan with each method and say what each is worth.

    Seconds are those after the pass over all pairs, which is made once for the plans and once for the reports.

    Examples:

      gcbs compare x.npy y.npy

      gcbs compare x.npy y.npy --methods rcm,metis+refine --graph top-m --json
    """
    from gcbs_cli.cli.compare_tables import compare_table
    from gcbs_cli.cli.inputs import InputOptions, read_pair
    from gcbs_cli.cli.output import Output, choose_mode
    from gcbs_cli.cli.watching import watcher_for
    from gcbs_cli.comparison.compare import check_methods, compare_methods, default_methods
    from gcbs_cli.settings import FalseNegativeSettings, GraphSettings, PlanSettings

    out = Output(choose_mode(as_json=as_json, quiet=quiet))
    names = [name.strip() for name in methods.split(",")] if methods is not None else default_methods()
    check_methods(names)
    settings = PlanSettings(
        batch_size=batch_size,
        graph=GraphSettings(quantile, kind=graph.value, top=top),
        temperature=temperature,
        seed=seed,
        device=device,
        refine=refine,
        refine_seconds=time_limit,
        false_negatives=FalseNegativeSettings(fn_margin, weight=fn_weight),
    )
    inputs = InputOptions(x, y, x_column, y_column, dtype.value if dtype else None, normalize)
    sources = inputs.open()
    settings.check_rows(sources[0].rows)
    pair = read_pair(sources, inputs, out)
    with watcher_for(out) as watcher:
        lines = compare_methods(pair.unit, settings, names, watcher, trials=trials, recurrence=recurrence)
    pair.check_unchanged()
    out.table(compare_table(lines))
    out.result({"batch_size": batch_size, "temperature": temperature, "methods": [line.as_record() for line in lines]})
