"""`gcbs compare`: all methods on the same data in one table."""

from gcbs_cli.cli.inputs import open_inputs, read_groups, read_texts
from gcbs_cli.cli.output import Output
from gcbs_cli.cli.tables import compare_table
from gcbs_cli.cli.watching import show_progress
from gcbs_cli.comparison.compare import compare_methods, default_methods, not_installed, plain_names
from gcbs_cli.settings.others import Compare


def compare(settings: Compare) -> None:
    """Plan with each method, and print what each plan is worth."""
    out = Output(settings.shown)
    if settings.methods is None:
        names = default_methods(texts=settings.text.text is not None)
        for missing in not_installed().values():
            out.note(f"left out: {missing}")
    else:
        names = [name.strip() for name in settings.methods.split(",")]
    settings.text.check_methods(plain_names(names))
    stream = open_inputs(settings.inputs, out)
    settings.plan.check_rows(stream.rows)
    texts, groups = read_texts(settings.text, stream.rows), read_groups(settings.groups, stream.rows)
    pair = stream.read()
    with show_progress(out) as progress:
        lines = compare_methods(
            pair,
            settings.plan,
            names,
            progress,
            trials=settings.trials,
            recurrence=settings.recurrence,
            groups=groups,
            inputs=texts,
        )
    stream.check_unchanged()
    out.table(compare_table(lines))
    asked = {"batch_size": settings.plan.batch_size, "temperature": settings.plan.temperature}
    out.result({**asked, "methods": [line.as_record() for line in lines]})
