"""`gcbs tune`: which settings suit this data, within a time budget."""

import shlex

from gcbs_cli.cli.inputs import open_inputs, read_groups, read_texts
from gcbs_cli.cli.output import Output
from gcbs_cli.cli.tables import tune_table
from gcbs_cli.cli.watching import show_progress
from gcbs_cli.comparison.compare import default_methods, not_installed
from gcbs_cli.comparison.tune import plan_options
from gcbs_cli.comparison.tune import tune as find_settings
from gcbs_cli.settings.model import words
from gcbs_cli.settings.others import GroupFile, Inputs, TextFile, Tune
from gcbs_cli.settings.plan import PlanSettings


def tune(settings: Tune) -> None:
    """Try plans, and print the command line of the best."""
    out = Output(settings)
    settings.check_text(default_methods(texts=settings.text is not None))
    for missing in not_installed().values():
        out.note(f"left out: {missing}")
    stream = open_inputs(settings, out)
    settings.check_rows(stream.rows)
    texts, groups = read_texts(settings, stream.rows), read_groups(settings, stream.rows)
    pair = stream.read()
    with show_progress(out) as progress:
        tuned = find_settings(
            pair,
            settings.only(PlanSettings),
            progress,
            budget=settings.budget,
            target=settings.target,
            most_suspected=settings.max_suspected,
            groups=groups,
            inputs=texts,
        )
    out.table(tune_table(tuned))
    if tuned.timed_out:
        out.note(f"--budget {settings.budget:g}: not everything was tried")
    command = None
    if tuned.best is not None:
        best = tuned.best.settings
        texts_too = words(settings.only(TextFile)) if best.method == "words" else []
        parts = [*words(settings.only(Inputs)), *plan_options(best), *words(settings.only(GroupFile)), *texts_too]
        command = shlex.join(["gcbs", "plan", *parts])
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
