"""`gcbs compare`: all methods on the same data in one table."""

from typing import Any

from gcbs_cli.cli.inputs import open_inputs, read_groups, read_texts
from gcbs_cli.cli.output import Output
from gcbs_cli.cli.tables import compare_table
from gcbs_cli.cli.watching import show_progress
from gcbs_cli.comparison.compare import Comparison, default_methods, not_installed, plain_names
from gcbs_cli.settings.others import Compare, Tune
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.progress import Progress


def compare(settings: Compare) -> None:
    """Plan with each method, and print what each plan is worth."""
    out = Output(settings)
    if settings.methods is None:
        names = default_methods(texts=settings.text is not None)
        for missing in not_installed().values():
            out.note(f"left out: {missing}")
    else:
        names = [name.strip() for name in settings.methods.split(",")]
    methods = plain_names(names)
    settings.check_text(methods)
    with show_progress(out) as progress:
        comparison = comparison_of(settings, out, progress, trials=settings.trials, recurrence=settings.recurrence)
        lines = [comparison.of_method(name) for name in names]
    out.table(compare_table(lines))
    shared = {"batch_size": settings.batch_size, "temperature": settings.temperature}
    out.result({**shared, "methods": [line.as_record() for line in lines]})


def comparison_of(settings: Compare | Tune, out: Output, progress: Progress, **more: Any) -> Comparison:
    """Reads what the command was given, and makes the passes for all plans; more: what else `Comparison` takes."""
    stream = open_inputs(settings, out)
    settings.check_rows(stream.rows)
    groups, texts = read_groups(settings, stream.rows), read_texts(settings, stream.rows)
    return Comparison(stream.read(), settings.only(PlanSettings), progress, groups=groups, inputs=texts, **more)
