"""`gcbs tune`: which settings suit this data, within a time budget."""

from enum import StrEnum
from typing import Annotated

import typer

from gcbs_cli.cli import bsc_options, options, plan_options
from gcbs_cli.cli.edge import at_the_edge
from gcbs_cli.settings.plan import DEFAULT_BATCH_SIZE, DEFAULT_TEMPERATURE


class TargetChoice(StrEnum):
    """Which reduction is to be as large as possible."""

    MASKED = "masked"
    GAP = "gap"


@at_the_edge
def tune(
    x: options.XPath,
    y: options.YPath = None,
    budget: Annotated[
        str, typer.Option("--budget", help="Time for it all, such as 60s or 5m; a trial begun is finished.")
    ] = "60s",
    max_suspected: Annotated[
        int | None,
        typer.Option(
            "--max-suspected",
            help="Suspected false negatives that batches may hold. [default: as many as plain RCM's]",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        TargetChoice, typer.Option("--target", help="Reduction to maximise: of the masked gap, or of the plain one.")
    ] = TargetChoice.MASKED,
    batch_size: Annotated[
        int, typer.Option("--batch-size", "-k", help="Pairs that see each other in one loss.")
    ] = DEFAULT_BATCH_SIZE,
    temperature: Annotated[
        float, typer.Option("--temperature", "-t", help="Temperature of the loss.")
    ] = DEFAULT_TEMPERATURE,
    drop_last: options.DropLast = False,
    time_limit: plan_options.TimeLimit = None,
    groups: plan_options.Groups = None,
    groups_column: plan_options.GroupsColumn = None,
    no_duplicates: plan_options.NoDuplicates = False,
    text: bsc_options.Text = None,
    text_column: bsc_options.TextColumn = None,
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
    max_edges: options.MaxEdges = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Try graphs, margins, weights and group sizes, and print the command line of the best plan.

    The best closes most of the (masked) gap among those with few enough suspected false negatives in their batches.
    --text has the method words tried too.

    Examples:

      gcbs tune x.npy y.npy --budget 60s

      gcbs tune x.npy y.npy -k 256 --max-suspected 1000 --json
    """
    import shlex

    from gcbs_cli.cli.compare_tables import tune_table
    from gcbs_cli.cli.group_files import GroupsFile
    from gcbs_cli.cli.inputs import InputOptions, read_pair
    from gcbs_cli.cli.output import Output, choose_mode
    from gcbs_cli.cli.texts import TextOptions
    from gcbs_cli.cli.watching import watcher_for
    from gcbs_cli.comparison.compare import default_methods, not_installed
    from gcbs_cli.comparison.tune import plan_options as words_of
    from gcbs_cli.comparison.tune import tune as find_settings
    from gcbs_cli.settings.plan import PlanSettings

    out = Output(choose_mode(as_json=as_json, quiet=quiet))
    seconds = parse_seconds(budget)
    texts = TextOptions(text, text_column)
    texts.check(default_methods(texts=text is not None))
    for missing in not_installed().values():
        out.note(f"left out: {missing}")
    settings = PlanSettings.of(
        batch_size=batch_size,
        temperature=temperature,
        seed=seed,
        drop_last=drop_last,
        device=device,
        chunk_rows=chunk_rows,
        max_memory=max_memory,
        max_edges=max_edges,
        time_limit=time_limit,
        no_duplicates=no_duplicates,
        quantile=quantile,
        per_row=per_row,
        threshold=threshold,
        quantile_method=quantile_method,
    )
    inputs = InputOptions(x, y, x_column, y_column, dtype.value if dtype else None, normalize)
    sources = inputs.open()
    settings.check_rows(sources[0].rows)
    inputs_of_methods, apart = texts.read(sources[0].rows), GroupsFile(groups, groups_column)
    rows_apart = apart.read(sources[0].rows)
    pair = read_pair(sources, inputs, out)
    with watcher_for(out) as watcher:
        tuned = find_settings(
            pair.unit,
            settings,
            watcher,
            budget=seconds,
            target=target.value,
            most_suspected=max_suspected,
            groups=rows_apart,
            method_inputs=inputs_of_methods,
        )
    out.table(tune_table(tuned))
    if tuned.timed_out:
        out.note(f"--budget {budget}: not everything was tried")
    command = None
    if tuned.best is not None:
        words = ["gcbs", "plan", *inputs.words(), *words_of(tuned.best.settings), *apart.words()]
        command = shlex.join(words + texts.words_for(tuned.best.settings.method))
        out.line(f"\n{command}")
    else:
        out.warning(f"no plan that was tried holds {tuned.most_suspected:,} suspected pairs or fewer; try a larger cap")
    out.result(
        {
            "command": command,
            "max_suspected": tuned.most_suspected,
            "timed_out": tuned.timed_out,
            "trials": [
                {**trial.worth.as_record(), "options": trial.options(), "fits": trial.fits} for trial in tuned.trials
            ],
        }
    )


def parse_seconds(text: str) -> float:
    """Seconds from 90, 90s, 5m or 1h. Raises BadInput."""
    from gcbs_cli.system.errors import BadInput

    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise BadInput(f"--budget {text}: expected a time such as 60s or 5m")
    return seconds
