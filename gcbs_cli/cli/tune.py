"""`gcbs tune`: which settings suit this data, within a time budget."""

import shlex
import time

from gcbs_cli.cli.compare import comparison_of
from gcbs_cli.cli.output import Output
from gcbs_cli.cli.tables import tune_table
from gcbs_cli.cli.watching import show_progress
from gcbs_cli.comparison.compare import NEEDS_TEXT, default_methods, not_installed
from gcbs_cli.comparison.tune import LONGEST_LIST, TRIALS
from gcbs_cli.comparison.tune import tune as find_settings
from gcbs_cli.settings.model import words
from gcbs_cli.settings.others import GroupFile, Inputs, TextFile, Tune


def tune(settings: Tune) -> None:
    """Try plans, and print the command line of the best."""
    out = Output(settings)
    settings.check_text(default_methods(texts=settings.text is not None))
    for missing in not_installed().values():
        out.note(f"left out: {missing}")
    began = time.monotonic()
    with show_progress(out) as progress:
        comparison = comparison_of(settings, out, progress, trials=TRIALS, longest_list=LONGEST_LIST)
        limits = (settings.budget, settings.target, settings.max_suspected)
        found = find_settings(comparison, began, *limits, texts=settings.text is not None)
    out.table(tune_table(found))
    if found.timed_out:
        out.note(f"--budget {settings.budget:g}: not everything was tried")
    command, best = None, found.best
    if best is not None:
        texts_too = words(settings.only(TextFile)) if best.settings.method == NEEDS_TEXT else []
        parts = [*words(settings.only(Inputs)), *best.options(), *words(settings.only(GroupFile)), *texts_too]
        command = shlex.join(["gcbs", "plan", *parts])
        out.line(f"\n{command}")
    else:
        out.warning(f"no plan that was tried holds {found.most_suspected:,} suspected pairs or fewer; try a larger cap")
    trials = [
        {**trial.as_record(), "options": " ".join(trial.options()), "fits": found.fits(trial)} for trial in found.trials
    ]
    capped = {"max_suspected": found.most_suspected, "timed_out": found.timed_out}
    out.result({"command": command, **capped, "trials": trials})
