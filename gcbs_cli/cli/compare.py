"""`gcbs compare`: all methods on the same data in one table."""

from gcbs_cli.cli.inputs import open_inputs, read_groups, read_texts
from gcbs_cli.cli.output import Output
from gcbs_cli.cli.tables import compare_table
from gcbs_cli.cli.watching import show_progress
from gcbs_cli.comparison.compare import Comparison, default_methods, not_installed, plain_names
from gcbs_cli.settings.others import Compare
from gcbs_cli.settings.plan import PlanSettings


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
    settings.check_methods(methods)
    stream = open_inputs(settings, out)
    settings.check_rows(stream.rows)
    texts, groups = read_texts(settings, stream.rows), read_groups(settings, stream.rows)
    pair = stream.read()
    with show_progress(out) as progress:
        comparison = Comparison(
            pair,
            settings.only(PlanSettings),
            progress,
            trials=settings.trials,
            recurrence=settings.recurrence,
            groups=groups,
            inputs=texts,
        )
        lines = [comparison.of_method(name) for name in names]
    stream.check_unchanged()
    out.table(compare_table(lines))
    shared = {"batch_size": settings.batch_size, "temperature": settings.temperature}
    out.result({**shared, "methods": [line.as_record() for line in lines]})
